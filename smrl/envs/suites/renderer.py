"""What draws dm_control's images: EGL or OSMesa, whichever this machine has. Neither needs a screen."""

import importlib
import os
import sys
import warnings

VARIABLE = "MUJOCO_GL"  # by which a user chooses
PREFERRED = ("egl", "osmesa", "glfw")  # glfw needs a screen
NONE = "off"
PLATFORM = "PYOPENGL_PLATFORM"  # by which dm_control tells PyOpenGL
ADVICE = "install a renderer of the system (Debian: apt-get install libegl1 libgl1 libosmesa6)"


def load() -> None:
    """Import dm_control's renderer: the one that the user has chosen, or else the first that can be imported.

    The variable stays set to a renderer that was found, for the package mujoco must load the same libraries.
    """
    if os.environ.get(VARIABLE):
        importlib.import_module("dm_control._render")
        return
    platform = os.environ.get(PLATFORM)
    for backend in PREFERRED:
        os.environ[VARIABLE] = backend
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("error", module="glfw")  # without a screen it only warns
                importlib.import_module("dm_control._render")
            return
        except Exception:  # a missing library can raise any
            os.environ.pop(PLATFORM, None)
            if platform is not None:
                os.environ[PLATFORM] = platform
            # PyOpenGL stays with the platform for which it was first imported.
            for name in [name for name in sys.modules if name.partition(".")[0] == "OpenGL"]:
                del sys.modules[name]
    os.environ[VARIABLE] = NONE
    try:
        importlib.import_module("dm_control._render")
    finally:
        del os.environ[VARIABLE]
