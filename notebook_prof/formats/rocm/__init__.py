"""AMD's recordings: rocprofv3's databases (rocpd) and CSV files, and the ROCm Profiler Data tools' (RPD)."""

from __future__ import annotations

from ...errors import FormatError
from ...readers.base import HEAD_BYTES, DatabaseReader, Folder, FolderReader, Probe
from ...readers.codec.sqlite import Database
from ...trace.builder import TraceBuilder
from .csv_kinds import AGENTS, kind_of


class RocmReader(DatabaseReader):
    """Reads ``*_results.db`` of rocprofv3 and rocprof-sys (rocpd), and ``.rpd`` of rocmProfileData."""

    # Kernels and copies are on the streams of their GPUs, HIP and HSA calls on their threads, with arrows
    # between them. roctx ranges become annotations, PyTorch's operators become operators. Times count from
    # when the machine was started, since neither format contains the date.
    name = "rocm"
    priority = 660
    describes = "AMD ROCm: rocprofv3's database (rocpd, *_results.db), rocmProfileData's .rpd"

    def recognises(self, probe: Probe) -> bool:
        """Return whether the database has AMD's tables."""
        return any(
            name.startswith(("rocpd_metadata", "rocpd_kernel_dispatch", "rocpd_api", "rocpd_op"))
            for name in probe.tables
        )

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        """Refuse anything but a database."""
        raise FormatError("it is not an SQLite database, as written by ROCm's profilers")

    def read_database(self, database: Database, builder: TraceBuilder) -> None:
        from .databases import read_database

        read_database(database, builder)


class RocmCsvReader(FolderReader):
    """Reads the files of ``rocprofv3 --output-format csv``: one per domain, of one process or several."""

    # Kernels, copies, calls and markers are treated as in its database. If several processes use GPUs, each
    # is a rank.
    name = "rocm_csv"
    priority = 655
    describes = "AMD ROCm: CSV files of rocprofv3 (kernel, copy, HIP, HSA and marker traces)"

    def recognises(self, probe: Probe) -> bool:
        """Return whether the file begins like one of rocprofv3's, in CSV or JSON."""
        return _is_json(probe.head) or kind_of(probe.head) not in (None, AGENTS)

    def recognises_folder(self, folder: Folder) -> bool:
        return any(kind_of(folder.head(name)) not in (None, AGENTS) for name in _csv_files(folder))

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        if _is_json(data[:HEAD_BYTES]):
            raise FormatError(
                "it is rocprofv3's JSON, which is not read: record with --output-format rocpd, which has the "
                "same in one database, or with csv"
            )
        from .csv_files import read_file

        read_file(data, builder)

    def read_folder(self, folder: Folder, builder: TraceBuilder) -> None:
        from .csv_files import read_folder

        read_folder(folder, _csv_files(folder), builder)


def _is_json(head: bytes) -> bool:
    return head.lstrip()[:1] == b"{" and b'"rocprofiler-sdk-tool"' in head


def _csv_files(folder: Folder) -> list[str]:
    return [name for name in folder.names if ".csv" in name.rpartition("/")[2]]
