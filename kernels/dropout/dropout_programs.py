# SPDX-License-Identifier: MIT
# What dropout is compiled into ahead of time; the backward is the same function. n rows, d columns
from program import same

NUMBER = "host int64[]"

PROGRAMS = [same("dropout_rows", ("x[n,d]", NUMBER, "host float32[]", "int64[1]", NUMBER, NUMBER), "")]

# Any number of columns: the hash is computed in 64 bits, and Inductor would take the column of a fixed width as 32.
GPU_WIDTHS = ["*"]
