"""What a tracer does to stopped threads: reads and changes their registers and memory, and lets them go on."""

from __future__ import annotations

import ctypes
import errno
import struct

from .architecture import CALLS, REGISTERS

CONTINUE, TO_ITS_END, LISTEN = 7, 24, 0x4208  # PTRACE_CONT, PTRACE_SYSCALL, PTRACE_LISTEN
PAGE = 4096
_PEEK, _POKE, _GET, _SET, _SEIZE = 2, 5, 0x4204, 0x4205, 0x4206  # PTRACE_PEEKDATA, POKEDATA, GETREGSET, ...
_GENERAL = 1  # NT_PRSTATUS, the set of general registers
_READ, _WRITE = CALLS["process_vm_readv"], CALLS["process_vm_writev"]
_FORBIDDEN = (errno.EPERM, errno.ENOSYS)  # by the filter of a container
_STATE = struct.Struct(f"{REGISTERS.words}Q")
_WORD = 8

_library = ctypes.CDLL(None, use_errno=True)
_ptrace = _library.ptrace
_ptrace.restype = ctypes.c_long
_ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_system_call = _library.syscall
_system_call.restype = ctypes.c_long
_system_call.argtypes = [ctypes.c_long, ctypes.c_long, *[ctypes.c_void_p] * 5]


def seize(pid: int, options: int) -> None:
    """Begin to trace a process, without stopping it. Nothing happens if that is impossible."""
    _ptrace(_SEIZE, pid, None, options)


def go_on(how: int, thread: int, signal: int = 0) -> None:
    """Let a stopped thread continue, with a signal if it stopped for one."""
    _ptrace(how, thread, None, signal)


class Threads:
    """Reads and writes one stopped thread at a time, in buffers that are used again."""

    def __init__(self) -> None:
        self._page = ctypes.create_string_buffer(PAGE)
        self._state = ctypes.create_string_buffer(_STATE.size)
        self._of_state = (ctypes.c_uint64 * 2)(ctypes.addressof(self._state), _STATE.size)
        self._remote, self._local = (ctypes.c_uint64 * 2)(), (ctypes.c_uint64 * 2)()

    def registers(self, thread: int) -> list[int]:
        """Return the registers of a thread, as the kernel orders them."""
        _ptrace(_GET, thread, _GENERAL, ctypes.addressof(self._of_state))
        return list(_STATE.unpack(self._state.raw))

    def set_registers(self, thread: int, registers: list[int]) -> None:
        _STATE.pack_into(self._state, 0, *registers)
        _ptrace(_SET, thread, _GENERAL, ctypes.addressof(self._of_state))

    def skip_call(self, thread: int, registers: list[int], result: int) -> None:
        """Let a thread, stopped before a call, not make it but get a result of it."""
        registers[REGISTERS.result] = result % 2**64
        if REGISTERS.call_set is None:
            registers[REGISTERS.number] = 2**64 - 1
        else:
            none = ctypes.c_int(-1)
            call = (ctypes.c_uint64 * 2)(ctypes.addressof(none), ctypes.sizeof(none))
            _ptrace(_SET, thread, REGISTERS.call_set, ctypes.addressof(call))
        self.set_registers(thread, registers)

    def text(self, thread: int, address: int) -> bytes | None:
        """Return the text at an address, without its final zero; None if it is unreadable, or longer than a page."""
        text = b""
        while len(text) < PAGE:
            at = address + len(text)
            piece = self.read(thread, at, PAGE - at % PAGE, to_zero=True)
            if piece is None:
                return None
            end = piece.find(b"\0")
            if end >= 0:
                return text + piece[:end]
            text += piece
        return None

    def read(self, thread: int, address: int, length: int, *, to_zero: bool = False) -> bytes | None:
        """Return up to `length` bytes, at most a page, of a thread's memory; None if it is unreadable.

        `to_zero`: what follows the first zero byte is not needed. Where a container forbids reading all at once, it is
        left out.
        """
        done = self._move(_READ, thread, address, self._page, length)
        if done < 0 and ctypes.get_errno() in _FORBIDDEN:
            return _words(thread, address, length, to_zero=to_zero)
        return self._page.raw[:done] if done > 0 else None

    def write(self, thread: int, address: int, content: bytes) -> bool:
        """Write to a thread's memory. Returns: whether that was possible."""
        source = ctypes.create_string_buffer(content, len(content))
        done = self._move(_WRITE, thread, address, source, len(content))
        if done < 0 and ctypes.get_errno() in _FORBIDDEN:
            return _write_words(thread, address, content)
        return done == len(content)

    def _move(self, number: int, thread: int, address: int, buffer: ctypes.Array[ctypes.c_char], length: int) -> int:
        self._remote[:] = [address, length]
        self._local[:] = [ctypes.addressof(buffer), length]
        local, remote = ctypes.addressof(self._local), ctypes.addressof(self._remote)
        return int(_system_call(number, thread, local, 1, remote, 1, 0))


def _words(thread: int, address: int, length: int, *, to_zero: bool) -> bytes | None:
    content = b""
    while len(content) < length and not (to_zero and b"\0" in content[-_WORD:]):
        word = _word(thread, address + len(content))
        if word is None:
            break
        content += word
    return content[:length] or None


def _write_words(thread: int, address: int, content: bytes) -> bool:
    for start in range(0, len(content), _WORD):
        piece = content[start : start + _WORD]
        if len(piece) < _WORD:
            word = _word(thread, address + start)
            if word is None:
                return False
            piece += word[len(piece) :]
        if _ptrace(_POKE, thread, address + start, struct.unpack("Q", piece)[0]) < 0:
            return False
    return True


def _word(thread: int, address: int) -> bytes | None:
    ctypes.set_errno(0)
    word = _ptrace(_PEEK, thread, address, None)
    return None if ctypes.get_errno() else struct.pack("q", word)
