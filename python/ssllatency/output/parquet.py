# SPDX-License-Identifier: Apache-2.0
"""A recording as a Parquet file, for DuckDB and whatever else reads tables."""

from __future__ import annotations

from io import BytesIO
from itertools import islice

from ssllatency.errors import SsllatencyError
from ssllatency.model.recording import Recording
from ssllatency.output import files as output_files
from ssllatency.reports.documents.bucket_rows import bucket_rows

_ROWS_AT_ONCE = 10_000


def write(name: str, recording: Recording) -> int:
    """Writes the rows of bucket_rows(), in place of a file that is there; how many. SsllatencyError where pyarrow isn't
    installed or the file can't be written."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise SsllatencyError("--parquet needs pyarrow: pip install pyarrow.") from None
    bucket = pyarrow.struct([("index", pyarrow.int32()), ("le_s", pyarrow.float64()), ("calls", pyarrow.int64())])
    columns = {
        "host": pyarrow.string(),
        "run": pyarrow.int32(),
        "started": pyarrow.timestamp("us", tz="UTC"),
        "duration_s": pyarrow.float64(),
        "subject": pyarrow.string(),
        "part": pyarrow.string(),
        "outcome": pyarrow.string(),
        "pid": pyarrow.int32(),
        "labels": pyarrow.map_(pyarrow.string(), pyarrow.string()),
        "other": pyarrow.bool_(),
        "count": pyarrow.int64(),
        "total_ns": pyarrow.int64(),
        "min_ns": pyarrow.int64(),
        "max_ns": pyarrow.int64(),
        "buckets": pyarrow.list_(bucket),
    }
    written, file, rows = 0, BytesIO(), bucket_rows(recording)
    with parquet.ParquetWriter(file, pyarrow.schema(list(columns.items())), compression="zstd") as writer:
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            keyed = [row | {"labels": list(row["labels"].items())} for row in some]  # type: ignore[attr-defined]
            writer.write_table(pyarrow.Table.from_pylist(keyed, schema=writer.schema))
            written += len(some)
    output_files.write(name, file.getvalue())
    return written
