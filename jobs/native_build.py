"""Steps of the build that pyproject.toml names: the native parser is built, or blizzard is packed without it.

`optional` of setuptools-rust is not enough. It fails on a rustc that tells no version, leaves an old binary where a
new one could not be built, and tags a wheel for this platform even if nothing was compiled.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError
from setuptools_rust.build import build_rust

# "required": fail where the native parser cannot be built, as `make native` does.
WISH = "BLIZZARD_BUILD_NATIVE"


class BuildOrGoWithout(build_rust):  # type: ignore[misc]
    """Builds the native parser. If that fails, one line says so, and the installation goes on."""

    built = False

    def run(self) -> None:
        # The interpreter is not asked: abi3 needs no more than what Cargo.toml says. So one build serves every
        # environment, where another interpreter's path would have cargo build pyo3 again.
        os.environ["PYO3_NO_PYTHON"] = "1"
        try:
            super().run()
        except Exception as e:  # whatever is wrong with this cargo, it counts as none
            sys.stderr.write(f"{e}\n")
        if self.built:
            return
        for extension in self.extensions:
            Path(self.get_dylib_ext_path(extension, extension.name)).unlink(missing_ok=True)
        if os.environ.get(WISH) == "required":
            raise CompileError("the native parser could not be built; the lines above say why")
        sys.stderr.write("blizzard: the native parser was not built; blizzard works without it, with a slower one\n")

    def install_extension(self, *arguments: object) -> None:
        super().install_extension(*arguments)
        self.built = True


class BuildNative(build_ext):  # type: ignore[misc]
    """As setuptools-rust has it. The classes that pyproject.toml names replace all of its own but build_rust."""

    def run(self) -> None:
        super().run()
        build = self.get_finalized_command("build_rust")
        build.inplace = self.inplace
        build.run()


class TaggedByContent(bdist_wheel):  # type: ignore[misc]
    """One wheel for every Python from 3.10 on. Without the native parser it is for every platform too."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self.py_limited_api = "cp310"  # abi3; setuptools-rust asks for it too

    def get_tag(self) -> tuple[str, str, str]:
        if not self.get_finalized_command("build_rust").built:
            self.root_is_pure = True  # the file WHEEL says so too
        tag: tuple[str, str, str] = super().get_tag()
        return tag
