"""What a process that has started gives back of the memory that starting took."""

import ctypes
import gc


def settle() -> bool:
    """True where the C library gave free memory back; what lives now is not looked at by the collector again.

    Modules are read into memory that is free once they are loaded, in pieces too small for glibc to return by itself:
    https://man7.org/linux/man-pages/man3/malloc_trim.3.html. numpy has loaded ctypes anyway.
    """
    gc.collect()
    gc.freeze()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    # Other C libraries (musl) have none.
    return trim is not None and bool(trim(0))
