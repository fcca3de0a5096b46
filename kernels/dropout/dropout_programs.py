# SPDX-License-Identifier: MIT
# Functions of dropout that are compiled ahead of time. The backward is dropout itself. n rows, d columns
from program import same

ROWS, NUMBER = "x[n,d]", "host int64[]"
MASK = (NUMBER, "host float32[]", "int64[1]", NUMBER, NUMBER)

PROGRAMS = [same("dropout_rows", (ROWS, *MASK), "")]

CALLED_BY = {"dropout": lambda _: {"dropout_rows": {}}}

# One package for any number of columns: the hash is computed in 64 bits, and for a fixed width Inductor would compute
# columns in 32.
GPU_WIDTHS = ["*"]
