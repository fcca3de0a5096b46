# SPDX-License-Identifier: MIT
# What dropout and add_dropout are compiled into ahead of time; the backward is dropout itself. n rows, d columns
from program import same

ROWS, NUMBER = "x[n,d]", "host int64[]"
MASK = (NUMBER, "host float32[]", "int64[1]", NUMBER, NUMBER)

PROGRAMS = [same("dropout_rows", (ROWS, *MASK), ""), same("add_dropout_rows", (ROWS, ROWS, *MASK), "")]

# Any number of columns: the hash is computed in 64 bits, and Inductor would take the column of a fixed width as 32.
GPU_WIDTHS = ["*"]
