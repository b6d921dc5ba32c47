"""Hatchling's hook: builds the extension by Bazel and puts it into the wheel."""

import importlib.util
import pathlib
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    def initialize(self, version, build_data):
        if self.target_name != "wheel":
            return
        path = pathlib.Path(self.root) / "python/build_package.py"
        spec = importlib.util.spec_from_file_location("build_package", path)
        build_package = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(build_package)
        files = build_package.build()
        build_data["pure_python"] = False
        python, abi, _ = build_package.abi()
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"{python}-{abi}-{platform}"
        if version == "editable":  # they stand beside the code
            return
        for file in files:
            build_data["force_include"][str(file)] = str(
                pathlib.PurePath("shardfeed") / file.relative_to(build_package.PACKAGE))
