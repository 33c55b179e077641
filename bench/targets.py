# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The project's targets in order, and why one may be missed. Rows of results name them by id.

A reason is told only where the target is not met in the results at hand. "Probably" marks what no row of the
same results proves.
"""

TARGETS = [
    ("W3", "Views of all tensors: at most 2 x (open + mmap + close) and 1 us a tensor"),
    ("W4-fresh", "Load warm into fresh memory: 0.65 of pread into touched memory, two threads"),
    ("W4-arena", "Load warm into a reused arena: 0.95 of the same"),
    ("W4-ref", "Load warm: 3 times the reference's best way to own the bytes"),
    ("W5", "Mapped and summed: 0.9 of summing touched memory"),
    ("W6", "Load cold into fresh memory: 0.95 of raw O_DIRECT"),
    ("W6-touched", "Load cold into touched memory: 0.95 of raw O_DIRECT"),
    ("W6-ref", "Load cold: 2 times the reference where its path is lazy"),
    ("W7", "Streamed cold through a small window: 0.95 of raw O_DIRECT"),
    ("W7-cache", "... and the page cache does not grow"),
    ("W9", "Rows: at most 1.05 of pread's time"),
    ("W9-one", "... a single row of 16 KiB"),
    ("W10", "Columns out of memory: 0.9 of a strided memcpy"),
    ("W10-borrow", "Columns out of a mapped file: 0.9 of memcpy from that mapping"),
    ("W10-file", "Columns out of a file by default (no mapping): 0.9 of memcpy from a mapping"),
    ("W11", "Save: 0.9 of fallocate + write"),
    ("W11-ref", "Save: 2 times the reference"),
    ("W11-durable", "Durable save: 0.9 of O_DIRECT + fsync"),
    ("W11-durable-2", "... with a pool of two"),
    ("W11-durable-ref", "Durable save: 2 times the reference with an fsync"),
    ("W12", "Streaming writer: 0.9 of fallocate + write"),
    ("W12-memory", "... with under 64 MiB of memory"),
    ("W13", "Merge 8 shards: 0.85 of the fastest copy"),
    ("W13-split", "Split into 8: 0.85 of the fastest copy"),
    ("W15-F32", "Cast BF16 to F32: 0.8 of reading and writing as many bytes"),
    ("W15-BF16", "Cast F32 to BF16: 0.8"),
    ("W15-F16", "Cast F32 to F16: 0.8"),
    ("W15-F8_E4M3", "Cast F32 to F8_E4M3: 0.8"),
    ("W18", "Verify CRC32C at the rate of reading"),
    ("VERIFIED-cold", "Verified loading costs at most 5 %: from the disk"),
    ("VERIFIED", "... warm files"),
    ("VERIFIED-python", "... in Python, load_file(verify=True)"),
    ("W19", "8 threads x 8 files: 0.9 of the rate of one thread"),
    ("AUTO", "auto within 10 % of the best fixed strategy, cell by cell"),
    ("STREAM", "Tensors as they arrive: within 10 % of a plain load"),
    ("P-import", "import safetensors_c: at most 3 ms over a bare interpreter"),
    ("P-many-torch", "load_file of 18,867 tensors, torch: 3 times the reference"),
    ("P-loop-torch", "... at most 1.3 times a bare from_dlpack loop"),
    ("P-many-numpy", "load_file of 18,867 tensors, numpy: 8 times the reference"),
    ("P-each-numpy", "... at most 1.5 us a tensor"),
    ("P-one-torch", "safe_open + one tensor of 10,000, torch: 10 times the reference"),
    ("P-one-numpy", "safe_open + one tensor of 10,000, numpy: 10 times the reference"),
    ("P-owned-torch", "All bytes owned, torch: 3 times the reference's best way"),
    ("P-owned-numpy", "All bytes owned, numpy: 3 times the reference's best way"),
    ("P-peak-torch", "... peak memory no more than the tensors, torch"),
    ("P-peak-numpy", "... peak memory no more than the tensors, numpy"),
    ("P-zero-copy", "numpy load without a copy"),
    ("P-slices", "Slices at the speed of the C library (0.9)"),
    ("P-save", "save_file: 2 times the reference"),
    ("P-save-copies", "save to bytes with one copy"),
    ("GPU", "On a GPU: 0.9 of the lower of storage and PCIe"),
]

WHY = {
    "W4-fresh": "Fresh pages are zeroed by the kernel before the file is copied into them: half of the memory's "
    'bandwidth. See "into touched memory" and "reused arena" in the same row.',
    "W6": "A first load has to be given its pages: one thread has them cleared ahead of the reads, which takes memory "
    'bandwidth from the disk\'s transfers; the row "touched memory" has none of that.',
    "W6-ref": "Probably: both wait for the same disk, and readahead behind a mapping comes close to it on this machine: "
    "what the baseline leaves is less than a factor of two.",
    "W9-one": "Slices, options and the checks of a range take 30 to 40 ns on top of a pread of half a microsecond.",
    "W10-file": "Without a mapping (the default, because a file that somebody cuts short is then an error and "
    "never a signal) the bound is the better of two rows beside it: a pread of each run, 0.3 us or more, or a "
    "pread of everything; SFT_READ_BORROW has neither.",
    "W11-ref": "The page cache takes its copy (see fallocate + write) at a few GB/s, whoever writes; the reference's way of growing the "
    "file costs less than twice that on this kernel and file system.",
    "W11-durable": 'On one thread the disk waits while a block is copied to where O_DIRECT wants it: see "copied first", a bare '
    'memcpy and pwrite. With the data at whole pages nothing is copied: see "data_alignment 4096".',
    "W11-durable-2": "One thread copies while the other writes; what is left is the memory's bandwidth, which the disk's transfers need, "
    'too ("data_alignment 4096" copies nothing).',
    "W11-durable-ref": "Both wait for the same disk; see O_DIRECT + fsync in the row.",
    "W13-split": "Eight files are created, written and published one after the other, each by two threads.",
    "W15-F32": "See the bare cast between pread and pwrite beside it; the rest is starting and ending the tool.",
    "W15-BF16": "As above.",
    "W15-F16": "As above; every result is also searched for what F16 could not keep.",
    "W15-F8_E4M3": "As above; little is written, so the tool's 3 ms and the cast weigh more.",
    "VERIFIED-cold": "Probably: the disk has a read under way all the time; what is left is that the checksum takes the bytes out of "
    "memory once more beside the disk's transfers, and processor time, which others may want.",
    "VERIFIED": 'The checksum needs each byte once more while it is in the cache: half of "CRC32C alone, in the cache, 1 thread" (two '
    "threads do it) is more than 5 % of the load beside it. Larger blocks do not change that.",
    "VERIFIED-python": "As in C: the checksum needs each byte once more while it is in the cache.",
    "P-slices": "A tensor is made of every slice, where the C library's row writes to the same memory; see numpy.empty + os.preadv "
    "in the row, the least that Python needs for that.",
    "P-save": "The page cache takes its copy from both: bare fallocate + write is not twice as fast as the reference either (the "
    "row's last two ratios), by one thread or two.",
    "GPU": "No GPU in the machine of these results.",
}
