"""The rules of BUILD files in one place, for one line of load(). Each is explained in its file."""

load("//tools/bazel:aot_inductor.bzl", _aot_inductor_packages = "aot_inductor_packages")
load("//tools/bazel:archive.bzl", _archive = "archive")
load("//tools/bazel:cuda.bzl", _cuda_library = "cuda_library")
load("//tools/bazel:fuzz.bzl", _fuzz_target = "fuzz_target")
load("//tools/bazel:gpu_code.bzl", _gpu_table = "gpu_table")
load("//tools/bazel:gpu_tests.bzl", _GPU_ROOMS = "GPU_ROOMS", _gpu_tests = "gpu_tests")
load("//tools/bazel:headers.bzl", _headers = "headers")
load("//tools/bazel:instruction_set_tests.bzl", _instruction_set_tests = "instruction_set_tests")
load(
    "//tools/bazel:library.bzl", _binary = "binary", _library = "library", _torch_library = "torch_library",
    _torch_unit_test = "torch_unit_test", _torch_unit_tests = "torch_unit_tests", _unit_test = "unit_test",
    _unit_tests = "unit_tests",
)
load("//tools/bazel:mpi_test.bzl", _mpi_test = "mpi_test", _rank_tests = "rank_tests")
load("//tools/bazel:program.bzl", _program = "program")
load("//tools/bazel:python.bzl", _python_test = "python_test")
load("//tools/bazel:triton.bzl", _triton_library = "triton_library")

GPU_ROOMS = _GPU_ROOMS
aot_inductor_packages = _aot_inductor_packages
archive = _archive
binary = _binary
cuda_library = _cuda_library
fuzz_target = _fuzz_target
gpu_table = _gpu_table
gpu_tests = _gpu_tests
headers = _headers
instruction_set_tests = _instruction_set_tests
library = _library
mpi_test = _mpi_test
program = _program
python_test = _python_test
rank_tests = _rank_tests
torch_library = _torch_library
torch_unit_test = _torch_unit_test
torch_unit_tests = _torch_unit_tests
triton_library = _triton_library
unit_test = _unit_test
unit_tests = _unit_tests
