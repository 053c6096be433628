"""Keeps a layer of Mesa's quiet while devices are listed.

It looks for a display then, and the library that it asks prints an error every time if the environment has no directory to look in. A
display that is no socket is not there, either way. The variable is set for that moment only: programs look at it to choose a display.
"""

import os
import sys

_FOLDER, _DISPLAY = "XDG_RUNTIME_DIR", "WAYLAND_DISPLAY"


def hide() -> bool:
    """Whether the variable was set, which `show` takes back."""
    if sys.platform != "linux" or any(os.path.isabs(os.environ.get(name, "")) for name in (_FOLDER, _DISPLAY)):
        return False
    if _DISPLAY in os.environ:
        return False
    os.environ[_DISPLAY] = os.devnull
    return True


def show() -> None:
    os.environ.pop(_DISPLAY, None)
