# SPDX-License-Identifier: Apache-2.0 OR MIT
"""CRC32C (Castagnoli, reflected) by the table: what the tests of digests compare with. Standard library only."""

TABLE = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    TABLE.append(n)


def crc32c(data, crc=0):
    """Of bytes; crc: that of what was before them."""
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def crc32c_hex(data):
    """As files and manifests have it."""
    return f"{crc32c(data):08x}"


assert crc32c(b"123456789") == 0xE3069283  # the check value of its definition
