# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Seeded generator of safetensors files, good and bad, for the comparisons with the reference.

A header is held as JSON text pieces, so that a mutation can put any spelling anywhere: an entry is a list
of [key text, value text], a header a list of [key text, value text or entry]. Generator(seed).make() gives
(file bytes, label of the recipe); the same seed gives the same files with the same Python version.
"""

import json
import random
import struct

BITS = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}
DTYPES = list(BITS)
SUB_BYTE = ["F4", "F6_E2M3", "F6_E3M2"]
CAP = 100_000_000

ODD_NAMES = [
    "",
    "\0",
    "a\0b",
    "é",
    "名前",
    "😀.w",
    'say "x"',
    "back\\slash",
    "sl/ash",
    "\x7f",
    "\x80",
    "\u2028",
    "\ufeff",
    "\ufffd",
    "\U0010ffff",
    "\ud7ff",
    "\ue000",
    "\n",
    "\t\r\b\f",
    "__metadata",
    "_metadata__",
    "__metadata__ ",
    "dtype",
    "shape",
    "data_offsets",
    " ",
    "a" * 300,
    "\x1b[31mred",
    "\u202egnp",
]
BLANKS = [" ", "\n", "\t", "\r", "  ", "\r\n", " \t "]
WHOLE = [
    0,
    1,
    2,
    3,
    7,
    8,
    255,
    256,
    65535,
    2**31,
    2**32 - 1,
    2**32,
    2**53 + 1,
    2**60,
    2**61 - 1,
    2**61,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 1,
]
NOT_WHOLE = [
    "1.0",
    "1e0",
    "1E0",
    "-1",
    "-0",
    "01",
    "00",
    "+1",
    "0x1",
    "1_0",
    "18446744073709551616",
    "NaN",
    "Infinity",
    "-Infinity",
    "true",
    "false",
    "null",
    '"1"',
    "[]",
    "{}",
    "1.",
    ".5",
    "0.0",
    "1e-1",
    "-",
    "",
    "1e",
    "99999999999999999999999",
    "[1]",
    "1e999",
    "0.1e1",
    "-1.5",
    "1 1",
    "'1'",
]
FINE_NUMBERS = [
    "0",
    "-0",
    "1",
    "-1",
    "1.5",
    "1e5",
    "1E+5",
    "1e-400",
    "-1e308",
    "0e99",
    "0.0e999",
    "0E-0",
    "1e-99999999999",
    "0e99999999999999999999",
    "0.0001e310",
    "123456789012345678901234567890",
    "-123456789012345678901",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "-9223372036854775809",
    "1.7976931348623157e308",
    "2.2250738585072014e-308",
    "4.9e-324",
    "0." + "0" * 400 + "1e500",
    "9" * 300,
    "1" + "0" * 308,
    "0.1234567890123456789012345678901234567890",
    "5e-325",
]
BAD_NUMBERS = [
    "1e309",
    "-1e309",
    "1e999",
    "1" + "0" * 309,
    "9" * 310,
    "1e99999999999999999999",
    "10000e305",
    "1.8e308",
    "-1.9e308",
    "00",
    "-01",
    "1.",
    ".1",
    "1e",
    "1e+",
    "--1",
    "+1",
    "1.e1",
    "0x10",
    "-",
    "1a",
    "NaN",
    "nan",
    "Infinity",
    "1..2",
    "1e1.5",
    "-a",
    "1__0",
]
WRONG_TYPES = [
    "null",
    "true",
    "false",
    "7",
    "-1",
    "1.5",
    '"F32"',
    '""',
    "[]",
    "{}",
    "[1]",
    "[[]]",
    '{"a":1}',
    "[null]",
    '["a"]',
    '{"F32":null}',
    "1e400",
]
BAD_STRINGS = [
    r'"\x"',
    r'"\u12"',
    r'"\u123g"',
    r'"\ud800"',
    r'"\udc00"',
    r'"\ud800\ud800"',
    r'"\ud800x"',
    r'"\ud83d\n"',
    '"\x01"',
    '"\n"',
    '"\t"',
    '"\x1f"',
    '"open',
    '"\\',
    r'"\u"',
    r'"\ud800\u0041"',
    '"\0"',
    r'"\U0041"',
    r'"\'"',
]
BAD_UTF8 = [
    b"\xff",
    b"\xfe",
    b"\x80",
    b"\xbf",
    b"\xc0\x80",
    b"\xc1\xbf",
    b"\xc2",
    b"\xe0\x80\x80",
    b"\xe0\x9f\xbf",
    b"\xed\xa0\x80",
    b"\xed\xbf\xbf",
    b"\xf0\x80\x80\x80",
    b"\xf0\x8f\xbf\xbf",
    b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80",
    b"\xe2\x82",
    b"\xf0\x9f\x98",
    b"\xc3(",
    b"\xe2(\xa1",
    b"\xf0\x9f(\x80",
]
TOKENS = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "\\",
    "null",
    "true",
    "false",
    "0",
    "1",
    "-",
    ".",
    "e",
    "E",
    "+",
    "//",
    "/* */",
    "#",
    "'",
    "\u00a0",
    "\ufeff",
    "\0",
    "\x0b",
    "\x0c",
    '""',
    "{}",
    "[]",
    ",,",
    '"dtype":"F32"',
    '"shape":[1]',
    '"data_offsets":[0,4]',
    '"__metadata__":{}',
    "F32",
    "\\u0041",
    "1e999",
    "\x7f",
    "\x85",
]
BAD_DTYPES = [
    "f32",
    "F33",
    "",
    "FLOAT32",
    "C128",
    "F128",
    "I4",
    "U4",
    "bool",
    "Bool",
    "F8",
    "F8_E4M3FN",
    "BF16 ",
    " BF16",
    "F32\0",
    "int8",
    "F6",
    "F16B",
    "I128",
    "F4_E2M1",
    "é",
    "F6_E2M2",
]
HEX = ["%04x", "%04X"]


def quote(s):
    return json.dumps(s, ensure_ascii=False)


class Generator:
    """make() gives one file; the recipes are methods called recipe_*, their weights in WEIGHTS."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.pool = self.r.randbytes(1 << 16)
        names, weights = zip(*WEIGHTS.items())
        self.recipes = [getattr(self, "recipe_" + n) for n in names]
        self.names, self.weights = names, weights

    def make(self):
        (i,) = self.r.choices(range(len(self.names)), self.weights)
        return self.recipes[i](), self.names[i]

    # ------------------------------------------------------------ a valid model

    def chance(self, p):
        return self.r.random() < p

    def name(self, used):
        r = self.r
        while True:
            x = r.random()
            if x < 0.45:
                s = f"model.layers.{r.randrange(99)}.{r.choice(('attn', 'mlp', 'norm'))}.{r.choice('wbqkv')}"
            elif x < 0.8:
                s = "".join(r.choices("abcXYZ019._-", k=r.randrange(1, 12)))
            else:
                s = r.choice(ODD_NAMES)
                if self.chance(0.3):
                    s += r.choice(ODD_NAMES)
            if s not in used and s != "__metadata__":
                used.add(s)
                return s

    def shape(self, dtype, rank=None):
        r = self.r
        rank = r.choices((0, 1, 2, 3, 4, 6), (2, 6, 6, 3, 2, 1))[0] if rank is None else rank
        dims = [r.choices((1, 2, 3, 4, 5), (4, 4, 2, 2, 1))[0] for _ in range(rank)]
        if BITS[dtype] < 8:
            step = 2 if dtype == "F4" else 4
            if not dims:
                dims = [step]
            else:
                dims[r.randrange(len(dims))] = step * r.randrange(1, 3)
        return dims

    @staticmethod
    def nbytes(dtype, shape):
        n = BITS[dtype]
        for d in shape:
            n *= d
        return n // 8

    def tensors(self, count=None, dtypes=DTYPES, zero=0.03):
        """[name, dtype, shape, begin, end] in file order, packed."""
        r, used, at, out = self.r, set(), 0, []
        if count is None:
            count = r.choices((0, 1, 2, 3, 4, 6, 12), (1, 6, 6, 4, 3, 1, 0.3))[0]
        for _ in range(count):
            dtype = r.choice(dtypes)
            shape = self.shape(dtype)
            if shape and self.chance(zero):
                shape[r.randrange(len(shape))] = 0
            size = self.nbytes(dtype, shape)
            out.append([self.name(used), dtype, shape, at, at + size])
            at += size
        return out

    def metadata(self):
        used, out = set(), []
        for _ in range(self.r.choices((0, 1, 2, 5), (2, 4, 2, 1))[0]):
            out.append([quote(self.name(used)), quote(self.r.choice(ODD_NAMES + ["pt", "1", "{}", "a b"]))])
        return out

    @staticmethod
    def entry(t):
        return [
            ['"dtype"', quote(t[1])],
            ['"shape"', "[%s]" % ",".join(map(str, t[2]))],
            ['"data_offsets"', "[%d,%d]" % (t[3], t[4])],
        ]

    def header(self, tensors, metadata=0.3):
        members = [[quote(t[0]), self.entry(t)] for t in tensors]
        if self.chance(metadata):
            members.insert(0, ['"__metadata__"', self.metadata()])
        return members

    # ------------------------------------------------------------ text and file

    @staticmethod
    def text(members, sep=",", colon=":"):
        return "{%s}" % sep.join(
            [
                k + colon + (v if isinstance(v, str) else "{%s}" % sep.join([a + colon + b for a, b in v]))
                for k, v in members
            ]
        )

    def blank(self):
        return self.r.choice(BLANKS) if self.chance(0.3) else ""

    def loose_text(self, members):
        """The same with blanks wherever JSON allows them."""
        b = self.blank

        def value(v):
            if not isinstance(v, str):
                return "{%s}" % (",".join([b() + x + b() + ":" + b() + value(y) + b() for x, y in v]) or b())
            if v[:1] == "[" and '"' not in v:
                return v.replace("[", "[" + b()).replace(",", b() + "," + b()).replace("]", b() + "]")
            return v

        return b() + value(members) + b()

    def escape(self, quoted):
        """Another spelling of the same JSON string."""
        r, out = self.r, []
        for c in json.loads(quoted):
            x = r.random()
            if x < 0.3:
                u = c.encode("utf-16-be", "surrogatepass")
                out += ["\\u" + r.choice(HEX) % (u[i] << 8 | u[i + 1]) for i in range(0, len(u), 2)]
            elif c == "/" and x < 0.7:
                out.append("\\/")
            else:
                out.append(quote(c)[1:-1])
        return '"' + "".join(out) + '"'

    def data(self, size):
        at = self.r.randrange(len(self.pool) - 4096)
        if size > 4096:
            return self.r.randbytes(size)
        return self.pool[at : at + size]

    def file(self, text, size, pad=None):
        raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        if pad is None:
            pad = self.chance(0.7)
        if pad:
            raw += b" " * (-len(raw) % 8)
        return struct.pack("<Q", len(raw)) + raw + self.data(size)

    def styled(self, members):
        """Entry order, field order, spelling of strings, unknown fields, blanks: all as JSON allows."""
        r = self.r
        if self.chance(0.5):
            r.shuffle(members)
        for m in members:
            is_entry = not isinstance(m[1], str) and m[0] != '"__metadata__"'
            if is_entry and self.chance(0.5):
                if self.chance(0.4):
                    for _ in range(r.randrange(1, 3)):
                        m[1].append(
                            [quote(r.choice(("x", "extra", "", "Dtype", "shape ", "é", "x"))), self.value()]
                        )
                r.shuffle(m[1])
            if self.chance(0.15):
                m[0] = self.escape(m[0])
            if not isinstance(m[1], str):
                for f in m[1]:
                    if self.chance(0.05):
                        f[0] = self.escape(f[0])
                    if f[1][:1] == '"' and self.chance(0.1):
                        f[1] = self.escape(f[1])
        return self.loose_text(members) if self.chance(0.6) else self.text(members)

    def value(self, depth=0):
        """Any good JSON value, as text."""
        r = self.r
        x = r.random()
        if x < 0.35:
            return r.choice(FINE_NUMBERS) if self.chance(0.6) else self.number_text()
        if x < 0.5:
            return r.choice(("null", "true", "false"))
        if x < 0.75 or depth > 3:
            return self.escape(quote(r.choice(ODD_NAMES))) if self.chance(0.3) else quote(r.choice(ODD_NAMES))
        count = r.choice((0, 1, 2, 4))
        if x < 0.88:
            return "[" + self.blank() + ",".join([self.value(depth + 1) for _ in range(count)]) + "]"
        return (
            "{"
            + ",".join([quote(r.choice("abc")) + ":" + self.value(depth + 1) for _ in range(count)])
            + self.blank()
            + "}"
        )

    def number_text(self):
        """A JSON number of random digits; now and then beyond the range of a double."""
        r = self.r
        s = "-" if self.chance(0.3) else ""
        s += str(r.randrange(1, 10)) + "".join(
            r.choices("0123456789", k=r.choice((0, 1, 5, 17, 18, 19, 20, 25)))
        )
        if self.chance(0.5):
            s += "." + "".join(r.choices("0123456789", k=r.choice((1, 3, 16, 18, 19, 20, 30))))
        if self.chance(0.5):
            s += (
                r.choice("eE")
                + r.choice(("", "+", "-"))
                + str(r.choice((0, 1, 10, 280, 289, 290, 292, 300, 400)))
            )
        return s

    def nested(self, depth):
        r, left, right = self.r, [], []
        for _ in range(depth):
            if self.chance(0.5):
                left.append("[" + r.choice(("", "1,", '"]",')))
                right.append("]")
            else:
                left.append("{" + r.choice(("", '"b":0,')) + '"a":')
                right.append("}")
        return "".join(left) + r.choice(("0", '"x"', "[]", "{}", "null")) + "".join(reversed(right))

    # ------------------------------------------------------------ recipes that are mostly accepted

    def good(self, **kw):
        t = self.tensors(**kw)
        return self.header(t), t[-1][4] if t else 0

    def recipe_plain(self):
        members, size = self.good()
        if self.chance(0.3):
            return self.file(self.text(members, ", ", ": "), size)
        return self.file(self.text(members), size)

    def recipe_styled(self):
        members, size = self.good()
        return self.file(self.styled(members), size)

    def recipe_zero_size(self):
        members, size = self.good(zero=0.6)
        self.r.shuffle(members)
        return self.file(self.text(members), size)

    def recipe_sub_byte(self):
        members, size = self.good(dtypes=SUB_BYTE, zero=0.1)
        return self.file(self.text(members), size)

    def recipe_empty(self):
        b = self.blank
        meta = self.r.choice(
            (
                "",
                '"__metadata__":null',
                '"__metadata__":{}',
                '"__metadata__":{"a":"b"}',
                '"\\u005f_metadata__" : { }',
            )
        )
        return self.file(b() + b() + "{" + b() + meta + b() + "}" + b() + b(), 0)

    def recipe_metadata(self):
        t = self.tensors(count=self.r.randrange(3))
        members = self.header(t, metadata=1)
        return self.file(self.styled(members), t[-1][4] if t else 0)

    def one_entry(self):
        """A header with at least one entry; (members, the entry, data bytes)."""
        t = self.tensors(count=self.r.choices((1, 2, 3), (5, 3, 1))[0])
        members = [[quote(x[0]), self.entry(x)] for x in t]
        return members, self.r.choice(members)[1], t[-1][4]

    def recipe_unknown(self):
        members, entry, size = self.one_entry()
        for _ in range(self.r.randrange(1, 4)):
            entry.insert(self.r.randrange(len(entry) + 1), [quote(self.r.choice(ODD_NAMES)), self.value()])
        return self.file(self.text(members), size)

    def recipe_numbers(self):
        members, entry, size = self.one_entry()
        bad = self.chance(0.25)
        text = self.r.choice(BAD_NUMBERS if bad else FINE_NUMBERS) if self.chance(0.5) else self.number_text()
        entry.append(['"x"', self.r.choice(("%s", "[%s]", '{"y":%s}', "[1,%s , 2]")) % text])
        return self.file(self.text(members), size)

    def recipe_nested(self):
        members, entry, size = self.one_entry()
        depth = self.r.choice((1, 2, 50, 120, 122, 123, 124, 125, 126, 127, 128, 129, 200))
        if self.chance(0.85):
            entry.append(['"x"', self.nested(depth)])
        else:
            members.append([self.r.choice(('"x"', '"__metadata__"')), self.nested(depth)])
        return self.file(self.text(members), size)

    def recipe_rank(self):
        t = self.tensors(count=1, dtypes=["U8", "F32", "I64"])
        rank = self.r.choice((64, 65, 256, 1000, 1023, 1024))
        t[0][2] = [1] * rank
        t[0][4] = self.nbytes(t[0][1], t[0][2])
        return self.file(self.text(self.header(t)), t[0][4])

    # ------------------------------------------------------------ the hazards that we refuse

    def recipe_twice(self):
        members, entry, size = self.one_entry()
        x = self.r.random()
        if x < 0.4:
            m = self.r.choice(members)
            again = [m[0] if self.chance(0.5) else self.escape(m[0]), [list(f) for f in m[1]]]
            if self.chance(0.3):
                again[1] = self.entry(self.tensors(count=1)[0])
            members.insert(self.r.randrange(len(members) + 1), again)
        elif x < 0.8:
            pairs = self.metadata() + [['"k"', '"v"']]
            again = list(self.r.choice(pairs))
            if self.chance(0.5):
                again[0] = self.escape(again[0])
            if self.chance(0.5):
                again[1] = '"other"'
            pairs.insert(self.r.randrange(len(pairs) + 1), again)
            members.append(['"__metadata__"', pairs])
        else:
            members += [
                ['"__metadata__"', self.r.choice(("null", "{}", '{"a":"b"}'))],
                ['"__metadata__"', self.r.choice(("null", "{}", '{"a":"b"}'))],
            ]
        return self.file(self.text(members), size)

    def recipe_array_entry(self):
        members, entry, size = self.one_entry()
        parts = [f[1] for f in entry]
        if self.chance(0.3):
            self.r.choice((parts.pop, lambda: parts.append("1"), parts.reverse))()
        members = [[k, "[%s]" % ",".join(parts) if v is entry else v] for k, v in members]
        return self.file(self.text(members), size)

    def recipe_object_dtype(self):
        members, entry, size = self.one_entry()
        name = entry[0][1] if self.chance(0.8) else quote(self.r.choice(BAD_DTYPES))
        entry[0][1] = "{%s:%s}" % (name, self.r.choice(("null", "null", "null", "{}", "[]", "1", '""')))
        if self.chance(0.2):
            entry[0][1] = self.r.choice(("{}", '{"F32":null,"F32":null}', '{"F32":null,"x":1}'))
        self.r.shuffle(entry)
        return self.file(self.text(members), size)

    def recipe_rank_over(self):
        t = self.tensors(count=1, dtypes=["U8", "F32"])
        t[0][2] = [1] * self.r.choice((1025, 1026, 1500, 2000))
        t[0][4] = self.nbytes(t[0][1], t[0][2])
        if self.chance(0.3):
            t[0][2][self.r.randrange(1000)] = self.r.choice((0, 2, 2**63))
        return self.file(self.text(self.header(t)), t[0][4])

    # ------------------------------------------------------------ the container

    def recipe_too_small(self):
        return self.data(self.r.randrange(8))

    def recipe_too_large(self):
        r = self.r
        n = r.choice(
            (
                CAP + 1,
                CAP + 2,
                2**31,
                2**32,
                2**32 + 2,
                2**63 - 1,
                2**63,
                2**64 - 8,
                2**64 - 1,
                r.randrange(CAP + 1, 2**64),
            )
        )
        return struct.pack("<Q", n) + self.r.choice((b"", b"{}", b"{}      ", self.data(r.randrange(40))))

    def recipe_past_end(self):
        members, size = self.good()
        f = self.file(self.text(members), size)
        x = self.r.random()
        if x < 0.3:
            return f[: self.r.randrange(8, 8 + struct.unpack_from("<Q", f)[0])]
        room = len(f) - 8
        n = self.r.choice(
            (room + 1, room + 2, room + 8, 1000 + room, CAP, CAP - 1, self.r.randrange(room + 1, CAP))
        )
        return struct.pack("<Q", n) + f[8:]

    def recipe_length(self):
        """A header length that is off by a little, or zero."""
        members, size = self.good()
        f = self.file(self.text(members), size)
        n = struct.unpack_from("<Q", f)[0] + self.r.choice((-9, -8, -2, -1, 1, 2, 8, 9, 0))
        if self.chance(0.2):
            n = 0
        return struct.pack("<Q", max(n, 0)) + f[8:]

    # ------------------------------------------------------------ the text

    def recipe_utf8(self):
        members, size = self.good()
        raw = self.text(members).encode("utf-8", "surrogatepass")
        at = self.r.randrange(len(raw) + 1)
        if self.chance(0.5):
            at = raw.find(b'"') + 1
        cut = self.r.choice((0, 0, 1, 2))
        return self.file(raw[:at] + self.r.choice(BAD_UTF8) + raw[at + cut :], size)

    def recipe_tokens(self):
        members, size = self.good()
        text = self.text(members) if self.chance(0.7) else self.styled(members)
        for _ in range(self.r.choice((1, 1, 1, 2, 3))):
            at = self.r.randrange(len(text) + 1)
            cut = self.r.choice((0, 0, 0, 1, 1, 2, 5))
            text = text[:at] + self.r.choice(TOKENS) + text[at + cut :]
        return self.file(text, size)

    def recipe_strings(self):
        members, entry, size = self.one_entry()
        bad = self.r.choice(BAD_STRINGS)
        x = self.r.random()
        if x < 0.3:
            members.append(['"__metadata__"', [['"a"', bad]] if self.chance(0.5) else [[bad, '"a"']]])
        elif x < 0.6:
            entry.append([bad, "1"] if self.chance(0.5) else ['"x"', bad])
        elif x < 0.8:
            self.r.choice(members)[0] = bad
        else:
            entry[0][1] = bad
        return self.file(self.text(members), size)

    def recipe_ends(self):
        """Things before and behind the header's object."""
        members, size = self.good()
        junk = [
            "",
            " ",
            "\n",
            "\t",
            "\r",
            "\0",
            "\v",
            "\f",
            "\ufeff",
            "\u00a0",
            "{}",
            "null",
            ",",
            "}",
            "x",
            "//",
        ]
        return self.file(self.r.choice(junk) + self.text(members) + self.r.choice(junk), size)

    def recipe_top(self):
        return self.file(
            self.r.choice(WRONG_TYPES + BAD_STRINGS + BAD_NUMBERS + ["", " ", "{", "[", "nul"]), 0
        )

    # ------------------------------------------------------------ the structure

    def recipe_fields(self):
        members, entry, size = self.one_entry()
        r, f = self.r, self.r.choice(entry)
        x = r.random()
        if x < 0.25:
            entry.remove(f)
        elif x < 0.45:
            entry.insert(r.randrange(4), [f[0] if self.chance(0.5) else self.escape(f[0]), f[1]])
        elif x < 0.7:
            f[1] = r.choice(WRONG_TYPES)
        elif x < 0.8:
            f[0] = r.choice(('"Dtype"', '"shapes"', '"offsets"', "dtype", '""', "1", "null"))
        elif x < 0.9:
            entry[0][1] = quote(r.choice(BAD_DTYPES))
        else:
            members = [[k, r.choice(WRONG_TYPES) if v is entry else v] for k, v in members]
        return self.file(self.text(members), size)

    def recipe_bad_metadata(self):
        r = self.r
        t = self.tensors(count=r.randrange(3))
        members = self.header(t, metadata=0)
        if self.chance(0.4):
            value = r.choice(WRONG_TYPES)
        else:
            pairs = self.metadata() + [[quote(r.choice(ODD_NAMES)), r.choice(WRONG_TYPES)]]
            r.shuffle(pairs)
            value = pairs
        members.insert(r.randrange(len(members) + 1), ['"__metadata__"', value])
        return self.file(self.text(members), t[-1][4] if t else 0)

    def recipe_bad_whole(self):
        """A number in a shape or in offsets that is no whole number, or a wrong count of them."""
        members, entry, size = self.one_entry()
        r = self.r
        f = entry[r.randrange(1, 3)]
        items = [x for x in f[1][1:-1].split(",") if x]
        x = r.random()
        if x < 0.6 or not items:
            items.insert(r.randrange(len(items) + 1), r.choice(NOT_WHOLE))
            if len(items) > 1 and self.chance(0.7):
                items.pop(r.randrange(len(items)))
        elif x < 0.8:
            items.append(r.choice(("0", "1", items[-1])))
        else:
            items.pop()
        f[1] = "[%s]" % ",".join(items)
        return self.file(self.text(members), size)

    # ------------------------------------------------------------ the meaning

    def recipe_offsets(self):
        """Holes, overlaps, ends before begins, shuffled ranges."""
        r = self.r
        t = self.tensors(count=r.randrange(1, 5), zero=0.1)
        size = t[-1][4]
        x, i = r.random(), r.randrange(len(t))
        if x < 0.25:
            for other in t[i:]:
                other[3] += 1
                other[4] += 1
            size += 1
        elif x < 0.4 and t[i][3] > 0:
            t[i][3] -= 1
        elif x < 0.55:
            t[i][3], t[i][4] = t[i][4], t[i][3]
        elif x < 0.7:
            j = r.randrange(len(t))
            t[i][3], t[i][4] = t[j][3], t[j][4]
        elif x < 0.85:
            t[i][3 + r.randrange(2)] = r.choice(WHOLE)
        else:
            t[i][3] = t[i][4] = r.choice((0, size, size + 1, r.randrange(size + 2)))
            if t[i][2]:
                t[i][2][0] = 0
        if self.chance(0.4):
            r.shuffle(t)
        return self.file(self.text(self.header(t)), size)

    def recipe_size(self):
        """dtype and shape that do not give the bytes between the offsets."""
        r = self.r
        t = self.tensors(count=r.randrange(1, 4))
        size = t[-1][4]
        x, one = r.random(), r.choice(t)
        if x < 0.4:
            one[1] = r.choice(DTYPES)
        elif x < 0.7:
            one[2] = self.shape(one[1])
        elif x < 0.85:
            one[2] = one[2] + [r.choice((0, 1, 2, 2**32))]
        else:
            t[-1][4] += 1
            size += 1
        return self.file(self.text(self.header(t)), size)

    def recipe_coverage(self):
        members, size = self.good()
        return self.file(self.text(members), max(0, size + self.r.choice((-8, -1, 1, 2, 7, 8, 100))))

    def recipe_overflow(self):
        """Products of dimensions about 2^64, with and without a zero before or behind the overflow."""
        r = self.r
        t = self.tensors(count=r.randrange(1, 3))
        size = t[-1][4]
        shape = [r.choice(WHOLE[8:]) + r.choice((0, 0, -1)) for _ in range(r.choice((1, 2, 2, 3)))]
        if self.chance(0.35):
            shape.insert(r.randrange(len(shape) + 1), 0)
        i = r.randrange(len(t) + 1)
        at = t[i][3] if i < len(t) else size
        big = ["big", r.choice(DTYPES), shape, at, at]
        if self.chance(0.1):
            big[4] = r.choice(WHOLE)
        t.insert(i, big)
        return self.file(self.text(self.header(t)), size)

    def recipe_misaligned(self):
        r = self.r
        t = self.tensors(count=r.randrange(3))
        size = t[-1][4] if t else 0
        dtype = r.choice(SUB_BYTE)
        shape = r.choice(([], [1], [3], [2], [1, 3], [5, 1], [3, 3], [7], [2, 3], [6], [2**60 + 1], [4]))
        end = size + r.choice((0, 1, 2, 3))
        t.append(["odd", dtype, shape, size, end])
        return self.file(self.text(self.header(t)), end)

    # ------------------------------------------------------------ raw bytes

    def recipe_bytes(self):
        """Flips, cuts, copies anywhere in the file, the length kept right or not."""
        r = self.r
        members, size = self.good()
        f = bytearray(self.file(self.text(members), size))
        keep = self.chance(0.7)
        low = 8 if keep else 0
        high = len(f) - size if keep else len(f)
        grown = 0
        for _ in range(r.choice((1, 1, 1, 2, 4))):
            at = r.randrange(low, max(low + 1, min(high, len(f))))
            x = r.random()
            if x < 0.4 and at < len(f):
                f[at] ^= 1 << r.randrange(8)
            elif x < 0.55 and at < len(f):
                f[at] = r.choice(b'{}[]",:\\0 9-.eEnt\x00\x7f\x80\xff')
            elif x < 0.7:
                cut = min(r.choice((1, 1, 2, 4)), max(0, high - at))
                del f[at : at + cut]
                grown -= cut
            elif x < 0.85:
                piece = f[at : at + r.randrange(1, 12)]
                f[at:at] = piece
                grown += len(piece)
            else:
                f.insert(at, r.randrange(256))
                grown += 1
        if keep:
            f[:8] = struct.pack("<Q", max(0, struct.unpack_from("<Q", f)[0] + grown))
        return bytes(f)


WEIGHTS = {
    "plain": 14,
    "styled": 15,
    "zero_size": 5,
    "sub_byte": 4,
    "empty": 1.5,
    "metadata": 6,
    "unknown": 4,
    "numbers": 4,
    "nested": 2,
    "rank": 0.3,
    "twice": 2.5,
    "array_entry": 1.2,
    "object_dtype": 1.2,
    "rank_over": 0.3,
    "too_small": 1.5,
    "too_large": 1.5,
    "past_end": 2.5,
    "length": 2,
    "utf8": 3,
    "tokens": 6,
    "strings": 2,
    "ends": 2,
    "top": 1,
    "fields": 4,
    "bad_metadata": 2,
    "bad_whole": 4,
    "offsets": 5,
    "size": 5,
    "coverage": 3,
    "overflow": 3.5,
    "misaligned": 3,
    "bytes": 7,
}
