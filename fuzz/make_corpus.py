#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes the seeds in fuzz/corpus. Run it by hand after a change; the seeds are checked in."""

import os

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def entry(name, dtype, shape, begin, end, extra=""):
    dims = ",".join(map(str, shape))
    return f'"{name}":{{"dtype":"{dtype}","shape":[{dims}],"data_offsets":[{begin},{end}]{extra}}}'


def put(target, seeds):
    folder = os.path.join(HERE, target)
    os.makedirs(folder, exist_ok=True)
    for name, data in seeds.items():
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())


TWO = entry("a", "F32", [2, 3], 0, 24) + "," + entry("b", "BF16", [4], 24, 32)
HEADERS = {
    "empty": "0{}",
    "one": "0{" + entry("weight", "F32", [1], 0, 4) + "}",
    "two": "0{" + TWO + "}      ",
    "metadata": '0{"__metadata__":{"format":"pt","k":"v"},' + TWO + "}",
    "null-metadata": '0{"__metadata__":null,' + TWO + "}",
    "reversed": "0{" + entry("b", "U8", [4], 4, 8) + "," + entry("a", "U8", [4], 0, 4) + "}",
    "zeros": "0{"
    + entry("z", "F64", [0], 4, 4)
    + ","
    + entry("a", "U8", [4], 0, 4)
    + ","
    + entry("y", "I8", [3, 0], 0, 0)
    + "}",
    "scalar": "0{" + entry("s", "I64", [], 0, 8) + "}",
    "subbyte": "0{" + entry("s", "F4", [3, 2], 0, 3) + "," + entry("t", "F6_E2M3", [4], 3, 6) + "}",
    "long-dtype": "0{" + entry("s", "F8_E4M3FNUZ", [3], 0, 3) + "," + entry("t", "F8_E5M2", [4], 3, 7) + "}",
    "blanks": '0 { "a" : { "shape" : [ 1 , 2 ] , "data_offsets" : [ 0 , 2 ] , "dtype" : "BOOL" } } \n\t\r',
    "escapes": '0{"\\u0061\\n\\ud83d\\ude00":{"\\u0064type":"F\\u00332","shape":[1],"data_offsets":[0,4]}}',
    "unknown": "0{" + entry("a", "F16", [1], 0, 2, ',"x":[1,-2.5e-3,{"y":[null,true,false,"s"]}]') + "}",
    "duplicate": "0{" + entry("a", "U8", [0], 0, 0) + "," + entry("a", "U8", [0], 0, 0) + "}",
    "duplicate-key": '0{"__metadata__":{"k":"v","\\u006b":"w"}}',
    "array-entry": '0{"a":["F32",[1],[0,4]]}',
    "object-dtype": '0{"a":{"dtype":{"F32":null},"shape":[1],"data_offsets":[0,4]}}',
    "rank9": "0{" + entry("a", "U8", [1] * 9, 0, 1) + "}",
    "overflow": "0{" + entry("a", "U8", [2**32, 2**32, 0], 0, 0) + "}",
    "hole": "0{" + entry("a", "U8", [1], 0, 1) + "," + entry("b", "U8", [1], 2, 3) + "}",
    "overlap": "0{" + entry("a", "U8", [2], 0, 2) + "," + entry("b", "U8", [1], 1, 2) + "}",
    "deep": "0{" + entry("a", "U8", [1], 0, 1, ',"x":' + "[" * 125 + "]" * 125) + "}",
    "numbers": "0{"
    + entry("a", "U8", [1], 0, 1, ',"x":[1e308,0.1e309,18446744073709551616,-0,17976931348623157e292]')
    + "}",
    "range": "0{" + entry("a", "U8", [1], 0, 1, ',"x":1e309') + "}",
    "utf8": '0{"é\u4e2d\U0001f600":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
    "bad-utf8": b'0{"\xff":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
    "strict": "1{" + TWO + "}   ",
    "strict-name": "1{" + entry("\\u202e", "U8", [1], 0, 1) + "}",
    "limits": ">{" + entry("name", "U8", [1, 1, 1], 0, 1) + "," + entry("b", "U8", [1], 1, 2) + "}",
    "long-name": "0{" + entry("layer." * 40 + "w", "U8", [1], 0, 1) + "}",
    "thirteen-keys": '0{"__metadata__":{' + ",".join(f'"k{i}":"v"' for i in range(13)) + "}}",
    "many": "0{" + ",".join(entry(f"t{i}", "U8", [i % 3], 0, 0) for i in range(20)) + "}",
    "lfs": "0version https://git-lfs.github.com/spec/v1",
}
INDEXES = {
    "usual": '{"metadata":{"total_size":123},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}',
    "empty-map": '{"weight_map":{}}',
    "no-map": '{"metadata":{}}',
    "others": '{"a":[1,{"b":null}],"weight_map":{"x":"y"},"metadata":{"x":1.5,"total_size":"9"}}',
    "escapes": '{"weight\\u005fmap":{"\\u0061":"\\u0062.safetensors"}}',
    "paths": '{"weight_map":{"a":"../x","b":"/etc/passwd","c":"C:\\\\x","d":"con","e":"a/b","f":"a//b","g":"x."}}',
    "devices": '{"weight_map":{"a":"COM1.x","b":"lpt\u00b9","c":"nul .txt","d":"CONIN$","e":"aux"}}',
    "duplicate": '{"weight_map":{"a":"x","a":"y"}}',
    "blanks": ' { "weight_map" : { "a" : "b" } } \n',
    "float-total": '{"metadata":{"total_size":1e10},"weight_map":{}}',
}
SLICES = {
    "empty": b"\x02\x05\x06\x01\x01\x01\x01",
    "ranges": b"\x03\x05\x06\x07\x01\x01\x010:2, ::-1, 3",
    "ellipsis": b"\x04\x05\x06\x07\x08\x01\x01..., -1",
    "steps": b"\x02\x0f\x0e\x01\x01\x01\x01-1:-9:-3,1:99:4",
    "huge": b"\x02\xff\xf0\x01\x01\x01\x01::9223372036854775807,-9223372036854775807:",
    "outside": b"\x01\x05\x06\x01\x01\x01\x015",
    "zero": b"\x01\x00\x06\x01\x01\x01\x01::-1",
    "bad": b"\x01\x05\x06\x01\x01\x01\x011:2:0",
}
BUILDS = {
    "none": b"\x00\x00\x00",
    "one": b"\x00\x01\x00\x11\x02\x02\x03\x01w",
    "three": b'\x48\x03\x02\x11\x01\x02\x01a\x04\x01\x04\x02bb\x15\x00\x03abc\x01k\x01v\x02\n"\x00',
    "declared": b"\x01\x02\x00\x04\x01\x03\x01a\x11\x01\x02\x01b",
    "aligned": b"\x06\x01\x00\x04\x01\x03\x01a",
    "overflow": b"\x00\x01\x00\x04\x02\xc8\xc8\x01a",
    "same-name": b"\x00\x02\x00\x04\x01\x03\x01a\x11\x01\x02\x01a",
    "same-key": b"\x40\x00\x02\x01k\x01v\x01k\x01w",
    "bad-utf8": b"\x00\x01\x00\x04\x00\x01\xff",
}
REMOTE = {
    "head": "hHTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-9/10\r\nContent-Length: 10\r\n"
    'ETag: "a"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n',
    "hub": 'hHTTP/2 302\r\nX-Linked-Etag: "' + "0a" * 32 + '"\r\nX-Repo-Commit: ' + "b" * 40 + "\r\n\r\n",
    "retry": "hHTTP/1.1 503 x\r\nRetry-After: 7\r\nContent-Encoding: gzip\r\n\r\n",
    "continue": "hHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: multipart/byteranges; boundary=x\r\n\r\n",
    "parts": "m\x07\r\n--B\r\nContent-Type: x\r\nContent-Range: bytes 0-4/4000\r\n\r\nabcde\r\n--B\r\n"
    "Content-Range: bytes 10-29/4000\r\n\r\n" + "f" * 20 + "\r\n--B--\r\n",
    "parts-joined": "m\xff--B\r\nContent-Range: bytes 0-40/*\r\n\r\n" + "g" * 41 + "\r\n--B--\r\nmore",
    "range": "rbytes 0-99/1234",
    "range-total": "rbytes */18446744073709551615",
    "date": "dSun, 06 Nov 1994 08:49:37 GMT",
    "date-old": "dSunday, 06-Nov-94 08:49:37 GMT",
    "date-c": "dSun Nov  6 08:49:37 1994",
    "url": "uhttps://Host:443/a/b.json?q=/1\nsub/c d?.safetensors",
    "url-ip6": "uhttp://[::1]:8/x\n../y",
    "hf": "fmodels/org/repo@refs/pr/7/a/b.safetensors",
    "s3": "fbucket/key/of.safetensors",
}
put("header", HEADERS)
put("index", INDEXES)
put("slice", SLICES)
put("build", BUILDS)
put("remote", REMOTE)
