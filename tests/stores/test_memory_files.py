"""Places for the memory tool's files: both keep the contract, and any sequence of commands does what a dictionary says."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from sapwood import FolderFiles, InProcessFiles
from sapwood.core.memory_files import MemoryFiles
from sapwood.testing.memory_files import MemoryFilesContract
from sapwood.testing.memory_files_machine import MemoryFilesMachine
from support.examples import examples


class TestInProcess(MemoryFilesContract):
    def opened(self) -> MemoryFiles:
        return InProcessFiles()


class TestFolder(MemoryFilesContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "memory"

    def opened(self) -> MemoryFiles:
        return FolderFiles(self.path)


class InProcessMachine(MemoryFilesMachine):
    def opened(self) -> MemoryFiles:
        return InProcessFiles()


class FolderMachine(MemoryFilesMachine):
    def opened(self) -> MemoryFiles:
        self.path = Path(tempfile.mkdtemp(prefix="sapwood-files-"))
        return FolderFiles(self.path)

    def teardown(self) -> None:
        super().teardown()
        on_disk = {
            path.relative_to(self.path).parts: path.read_bytes() for path in self.path.rglob("*") if path.is_file()
        }
        shutil.rmtree(self.path)
        assert on_disk == {path: text.encode() for path, text in self.files.items()}


TestInProcessMachine: Any = InProcessMachine.TestCase
TestInProcessMachine.settings = examples(60, stateful_step_count=40)
TestFolderMachine: Any = FolderMachine.TestCase
TestFolderMachine.settings = examples(20, stateful_step_count=25)
