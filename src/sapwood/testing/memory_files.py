"""The contract of a place for the memory tool's files, as tests for one of your own.

Law: plain asserts and no test framework.
"""

import threading

from sapwood.core.memory_files import MemoryEntry, MemoryFiles, MemoryFolder, Names

__all__ = ["MemoryFilesContract"]


class MemoryFilesContract:
    """Tests for one kind of `MemoryFiles`. Subclass it under a name that your runner finds.

    >>> from sapwood import InProcessFiles
    >>> class TestMine(MemoryFilesContract):
    ...     def opened(self):
    ...         return InProcessFiles()
    >>> TestMine().test_what_was_written_is_read()
    """

    def opened(self) -> MemoryFiles:
        """Return a new and empty place."""
        raise NotImplementedError

    def test_it_is_empty_at_first_and_the_root_is_there(self) -> None:
        """A new place has no files, and `/memories` is a folder."""
        with self.opened().held() as folder:
            assert folder.find(()) is not None
            assert folder.find(("a",)) is None
            assert folder.find(("a", "b")) is None
            assert (list(folder.children(())), folder.usage(10)) == ([], (0, 0))

    def test_what_was_written_is_read(self) -> None:
        """Bytes come back as they are, and the folders above are made."""
        files = self.opened()
        content = b"\xef\xbb\xbfa\r\nb\x00\xff"
        with files.held() as folder:
            folder.write(("a", "b.txt"), content)
        with files.held() as folder:
            assert folder.read(("a", "b.txt"), 100) == content
            assert folder.find(("a", "b.txt")) == MemoryEntry("b.txt", "file", len(content))
            assert folder.find(("a",)) == MemoryEntry("a", "folder")
            assert folder.find(("a", "b.txt", "c")) is None
            assert folder.usage(10) == (2, len(content))

    def test_a_long_file_may_be_read_in_part_but_shows_that_it_is_longer(self) -> None:
        """At least one byte more than was asked for is given."""
        with self.opened().held() as folder:
            folder.write(("a",), b"0123456789")
            assert folder.read(("a",), 4)[:5] == b"01234"

    def test_a_write_replaces_all_of_a_file(self) -> None:
        """Nothing of the old content stays."""
        with self.opened().held() as folder:
            folder.write(("a",), b"long content")
            folder.write(("a",), b"short")
            assert folder.read(("a",), 100) == b"short"
            assert folder.usage(10) == (1, 5)

    def test_children_are_those_of_one_folder_only(self) -> None:
        """Names that begin alike are not mixed up, and nothing deeper is listed."""
        with self.opened().held() as folder:
            for path in (("a", "x"), ("a", "y", "z"), ("ab",), ("b", "x")):
                folder.write(path, b"1")
            assert self.names(folder, ()) == ["a/", "ab", "b/"]
            assert self.names(folder, ("a",)) == ["x", "y/"]

    def test_what_is_removed_is_gone_with_all_that_is_in_it_and_nothing_else(self) -> None:
        """A folder goes whole, its neighbours stay."""
        with self.opened().held() as folder:
            for path in (("a", "x"), ("a", "y", "z"), ("ab",), ("b",)):
                folder.write(path, b"1")
            folder.remove(("a",))
            folder.remove(("b",))
            assert folder.find(("a", "y")) is None
            assert (self.names(folder, ()), folder.usage(10)) == (["ab"], (1, 1))

    def test_an_emptied_folder_stays(self) -> None:
        """Removing the last file of a folder leaves the folder."""
        with self.opened().held() as folder:
            folder.write(("a", "x"), b"1")
            folder.remove(("a", "x"))
            assert (self.names(folder, ()), folder.usage(10)) == (["a/"], (1, 0))

    def test_a_file_and_a_folder_move_with_their_content(self) -> None:
        """What moves arrives whole, in folders that are made for it."""
        with self.opened().held() as folder:
            folder.write(("a", "x"), b"1")
            folder.write(("ab",), b"2")
            folder.move(("a",), ("c", "d", "a"))
            folder.move(("ab",), ("b",))
            assert self.names(folder, ()) == ["b", "c/"]
            assert folder.read(("c", "d", "a", "x"), 10) == b"1"

    def test_nobody_else_gets_in_while_it_is_held(self) -> None:
        """A read and a write while it is held are one step."""
        files = self.opened()
        with files.held() as folder:
            folder.write(("n",), b"0")

        def count() -> None:
            for _ in range(25):
                with files.held() as held:
                    held.write(("n",), str(int(held.read(("n",), 10)) + 1).encode())

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with files.held() as folder:
            assert folder.read(("n",), 10) == b"100"

    @staticmethod
    def names(folder: MemoryFolder, path: Names) -> list[str]:
        """Return what lies in a folder, sorted; folders with a slash."""
        return sorted(entry.name + ("/" if entry.kind == "folder" else "") for entry in folder.children(path))
