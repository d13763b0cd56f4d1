"""A secure sum: masks that cancel, shares of discrete noise, signed cards. Only numpy and `cryptography`; no files."""
