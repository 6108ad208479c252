"""The version of the package, which is also that of its jar: the file ``VERSION`` of the project."""

from importlib.metadata import version

__version__ = version("streamjoin")
