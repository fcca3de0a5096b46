# SPDX-License-Identifier: MIT
"""A file that is replaced as a whole: a reader finds the old content or the new one, also after a power cut. replace_file in
base/files/file_io.h does the same for C++."""
import contextlib
import errno
import os
import stat


class WholeFile:
    """A file of bytes that has a temporary name until it is complete. If it is abandoned, the old file stays. `with WholeFile(path) as file`
    completes the file, or abandons it after an error. A link is replaced, and not what it leads to."""

    def __init__(self, path):
        self.path, self.temporary = path, f"{path}.{os.getpid()}.tmp"
        with self.named_errors():
            refuse_device(path)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.temporary)  # left by a process of this number that was killed
            self.file = open(self.temporary, "xb")

    def write(self, content):
        with self.named_errors():
            self.file.write(content)

    def complete(self):
        """All bytes are on the disk before the file gets its name."""
        try:
            with self.named_errors():
                self.file.flush()
                os.fsync(self.file.fileno())
                self.file.close()
                os.replace(self.temporary, self.path)
                sync_folder(os.path.dirname(self.path) or ".")
        except BaseException:
            self.abandon()
            raise

    def abandon(self):
        """Removes the temporary file. After complete() it does nothing."""
        with contextlib.suppress(OSError):  # a full disk refuses what was not yet written
            self.file.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.temporary)

    def __enter__(self):
        return self.file

    def __exit__(self, kind, error, trace):
        if error is None:
            self.complete()
            return
        self.abandon()
        if isinstance(error, OSError) and error.filename is None:  # of a write
            error.filename = self.path

    @contextlib.contextmanager
    def named_errors(self):
        """Errors name the file, and not its temporary name."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.path) from error


def refuse_device(path):
    """Somebody who is root would replace /dev/null for all programs."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "expected a regular file or a new name, and it is a device or a pipe")


def sync_folder(path):
    """Puts new names on the disk. Some network file systems cannot, and say EINVAL or EBADF."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF):
            raise
    finally:
        os.close(folder)


def replace_file(path, text):
    with WholeFile(path) as file:
        file.write(text.encode())
