"""Names that Python gives to every module. They are left out of the graph: all files would meet in them.

The list is written down, so that a file gives the same edges under every version of the interpreter.
"""

from __future__ import annotations

_EXCEPTIONS = """
ArithmeticError AssertionError AttributeError BaseException BaseExceptionGroup BlockingIOError BrokenPipeError
BufferError BytesWarning ChildProcessError ConnectionAbortedError ConnectionError ConnectionRefusedError
ConnectionResetError DeprecationWarning EOFError EncodingWarning EnvironmentError Exception ExceptionGroup
FileExistsError FileNotFoundError FloatingPointError FutureWarning GeneratorExit IOError ImportError ImportWarning
IndentationError IndexError InterruptedError IsADirectoryError KeyError KeyboardInterrupt LookupError MemoryError
ModuleNotFoundError NameError NotADirectoryError NotImplementedError OSError OverflowError PendingDeprecationWarning
PermissionError ProcessLookupError PythonFinalizationError RecursionError ReferenceError ResourceWarning RuntimeError
RuntimeWarning StopAsyncIteration StopIteration SyntaxError SyntaxWarning SystemError SystemExit TabError TimeoutError
TypeError UnboundLocalError UnicodeDecodeError UnicodeEncodeError UnicodeError UnicodeTranslateError UnicodeWarning
UserWarning ValueError Warning WindowsError ZeroDivisionError
"""
_FUNCTIONS = """
abs aiter all anext any ascii bin breakpoint callable chr compile copyright credits delattr dir divmod eval exec exit
format getattr globals hasattr hash help hex id input isinstance issubclass iter len license locals max min next oct
open ord pow print quit repr round setattr sorted sum vars __build_class__ __import__
"""
_TYPES = """
bool bytearray bytes classmethod complex dict enumerate filter float frozenset int list map memoryview object property
range reversed set slice staticmethod str super tuple type zip Ellipsis False None NotImplemented True
"""
_MODULE_NAMES = """
__annotations__ __builtins__ __cached__ __debug__ __dict__ __doc__ __file__ __loader__ __name__ __package__ __path__
__spec__ __class__ __module__ __qualname__
"""
_PYTHON_2 = "basestring cmp execfile file long raw_input reduce reload unichr unicode xrange"

EXCEPTIONS = frozenset(_EXCEPTIONS.split())
TYPES = frozenset(_TYPES.split())
BUILTINS = frozenset([*_EXCEPTIONS.split(), *_FUNCTIONS.split(), *_TYPES.split(), *_MODULE_NAMES.split()]) | frozenset(
    _PYTHON_2.split()
)
"""Names that mean a builtin where a file binds them nowhere."""

OF_EVERY_OBJECT = frozenset(
    [
        *("__class__", "__dict__", "__doc__", "__module__", "__name__", "__qualname__", "__annotations__", "__file__"),
        *("__code__", "__slots__", "__bases__", "__mro__", "__wrapped__", "__func__", "__self__", "__traceback__"),
        *("__cause__", "__context__"),
    ]
)
"""Attributes that objects have without a definition in any file."""
