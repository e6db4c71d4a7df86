"""Stands in for SGLang's GPU kernels where there is no GPU: everything can be imported and nothing
called. ``scripts/sglang`` puts it first on the path of the server's processes, never of ours.
"""

import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any

__version__ = "0.0.0"


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)

    def kernel(*_: Any, **__: Any) -> None:
        raise RuntimeError(f"sgl_kernel.{name} was called, but this machine has no GPU kernels")

    kernel.__name__ = name
    return kernel


class _AnySubmodule(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Any ``sgl_kernel.x.y`` is an empty module with the same attributes."""

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        # for scalar types SGLang has a stand-in of its own, which an import error brings in
        if not fullname.startswith("sgl_kernel.") or fullname == "sgl_kernel.scalar_type":
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = ModuleType(spec.name)
        module.__getattr__ = __getattr__  # type: ignore[method-assign]
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


sys.meta_path.append(_AnySubmodule())
