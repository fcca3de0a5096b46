# SPDX-License-Identifier: MIT
"""Compiles generated functions to one shared library with a table of them, and writes a text file that describes them.

The library has the interface of kernels/runtime/aot_inductor_package.h. The C++ runtime reads its text file:

    strata package 1
    library NAME.so
    bytes N
    sha1 HEX
    function KEY OP NAME DTYPE WIDTHS ARCHITECTURE LIMIT ARGUMENTS RESULTS      (one line each, separated by tabs)
"""
import hashlib
import os
import re
import stat
import subprocess

COMMON_FLAGS = [
    "-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-march=x86-64-v3", "-fopenmp", "-fno-math-errno", "-fno-trapping-math",
    "-ffp-contract=off", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections", "-w",
    "-DTORCH_INDUCTOR_CPP_WRAPPER", "-DSTANDALONE_TORCH_HEADER", "-DC10_USING_CUSTOM_GENERATED_MACROS",
    "-DCPU_CAPABILITY=AVX2", "-DCPU_CAPABILITY_AVX2",
]  # fmt: skip
# Functions of the CUDA driver that generated code calls. The driver's library exists only on machines with a GPU.
DRIVER_FUNCTIONS = [
    "cuModuleLoad", "cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute", "cuGetErrorString", "cuLaunchKernel",
]  # fmt: skip

MODEL_CLASS = """
namespace torch::aot_inductor {
class CLASS : public AOTInductorModelBase<CLASS> {
 public:
  CLASS(std::shared_ptr<ConstantMap>, std::shared_ptr<std::vector<ConstantHandle>>, const std::string& device_str,
        std::optional<std::string> cubin_dir);
  std::unordered_map<std::string, AtenTensorHandle> const_run_impl(DeviceStreamType, AOTIProxyExecutorHandle,
                                                                   bool initialization = false);
  void _const_run_impl(std::vector<AtenTensorHandle>&, DeviceStreamType, AOTIProxyExecutorHandle);
  void run_impl(AtenTensorHandle* input_handles, AtenTensorHandle* output_handles, DeviceStreamType stream,
                AOTIProxyExecutorHandle proxy_executor);

 private:
  std::unique_ptr<AOTInductorModelKernelsBase> kernels_;
};
}  // namespace torch::aot_inductor
"""

ENTRIES = """
namespace {
using namespace torch::aot_inductor;

template <class Model>
void* create(const char* device) {
  return new Model(std::make_shared<ConstantMap>(), std::make_shared<std::vector<ConstantHandle>>(), device, std::nullopt);
}
template <class Model>
void run(void* model, AtenTensorHandle* inputs, AtenTensorHandle* outputs, void* stream) {
  static_cast<Model*>(model)->run_single_threaded(inputs, outputs, static_cast<DeviceStreamType>(stream), nullptr);
}
struct Entry {
  void* (*create)(const char*);
  void (*run)(void*, AtenTensorHandle*, AtenTensorHandle*, void*);
};
const Entry kEntries[] = {
TABLE};

template <class Call>
char* guarded(Call call) {
  try {
    call();
    return nullptr;
  } catch (const std::exception& error) {
    return strdup(error.what());
  }
}
}  // namespace

extern "C" __attribute__((visibility("default"))) char* strata_package_create(size_t function, const char* device,
                                                                              void** model) {
  return guarded([&] { *model = kEntries[function].create(device); });
}
extern "C" __attribute__((visibility("default"))) char* strata_package_run(size_t function, void* model,
                                                                           AtenTensorHandle* inputs,
                                                                           AtenTensorHandle* outputs, void* stream) {
  return guarded([&] { kEntries[function].run(model, inputs, outputs, stream); });
}
"""


def _cut(text, first, last):
    """Removes the part of `text` from pattern `first`, which is removed too, up to pattern `last`, which stays."""
    begin = re.search(first, text)
    if begin is None:
        return text
    return text[: begin.start()] + text[begin.start() + re.search(last, text[begin.start() :]).start() :]


def _body(generated):
    """Returns the wrapper code of one function, changed so that several functions fit into one file."""
    name = generated.name
    text = generated.wrapper
    # Code that is the same for all functions is written once at the front. The caller checks the arguments.
    text = text[text.index("namespace torch::aot_inductor {\nnamespace {\nclass AOTInductorModelKernels") :]
    text = _cut(text, r"AOTI_NOINLINE static void (check_input_|__check_inputs)", rf"void AOTInductorModel{name}::run_impl\(")
    text = text.replace("__check_inputs_outputs(input_handles, output_handles);", "")
    text = re.sub(r"\bAOTInductorModelKernels\b", f"Kernels_{name}", text)
    text = re.sub(r"\bcpp_fused_", f"{name}_cpp_fused_", text)
    return MODEL_CLASS.replace("CLASS", f"AOTInductorModel{name}") + text


def _front(generated):
    """Returns the code before the first class: helpers and cached constants once, and declarations of all kernels."""
    helpers, constants, declarations = "", set(), []
    for one in generated:
        front = one.wrapper[: one.wrapper.index("namespace torch::aot_inductor {\nnamespace {\nclass")]
        front = re.sub(r'#include ".*"\n', "", front)
        constants.update(re.findall(r"^CACHE_TORCH_.*;$", front, re.M))
        front = re.sub(r"^CACHE_TORCH_.*;$", "", front, flags=re.M)
        kernels = re.findall(r'^extern "C"\s+void\s+cpp_fused_[^;]*;', front, re.M)
        front = re.sub(r'^extern "C"\s+void\s+cpp_fused_[^;]*;', "", front, flags=re.M)
        declarations += [re.sub(r"\bcpp_fused_", f"{one.name}_cpp_fused_", kernel) for kernel in kernels]
        helpers = max(helpers, front.strip(), key=len)  # a wrapper without GPU kernels has fewer helpers
    return "\n".join([helpers, *sorted(constants), *declarations]) + "\n"


def _wrapper_source(generated, on_gpu):
    device = "cuda" if on_gpu else "cpu"
    table = "".join(f"    {{create<AOTInductorModel{g.name}>, run<AOTInductorModel{g.name}>}},\n" for g in generated)
    return (
        f"#include <torch/csrc/inductor/aoti_include/{device}.h>\n"
        "#include <torch/csrc/inductor/aoti_runtime/model_base.h>\n"
        "#include <cstring>\n#include <iostream>\n#include <sstream>\n"
        + _front(generated)
        + "".join(_body(one) for one in generated)
        + ENTRIES.replace("TABLE", table)
    )


def _cubin_source(generated):
    lines = ['.section .note.GNU-stack,"",%progbits', ".section .rodata"]
    for one in generated:
        for kernel, path in one.cubins.items():
            symbol = f"__{kernel}_start"
            lines += [f".global {symbol}", f".hidden {symbol}", ".balign 64", f'{symbol}: .incbin "{path}"']
    return "\n".join(lines) + "\n"


def _execute(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr[-4000:]}")


def _compile(source, text, flags):
    with open(source, "w") as file:
        file.write(text)
    _execute(["g++", *flags, "-c", source, "-o", source + ".o"])
    return source + ".o"


def link(generated, work, library, on_gpu, site):
    torch = os.path.join(site, "torch")
    cuda = os.path.join(site, "nvidia", "cu13")
    # The flags make the library reproducible: the same functions give the same bytes.
    flags = COMMON_FLAGS + [f"-ffile-prefix-map={work}=.", f"-I{torch}/include", f"-I{torch}/include/torch/csrc/api/include"]
    if on_gpu:
        flags += ["-DUSE_CUDA", f"-I{cuda}/include"]
    objects = [_compile(f"{work}/wrapper.cc", _wrapper_source(generated, on_gpu), flags)]
    libraries = [f"-L{torch}/lib", "-ltorch_cpu", "-lc10"]
    if on_gpu:
        objects.append(_compile(f"{work}/cubins.S", _cubin_source(generated), []))
        driver = f"{work}/libcuda.so"
        stub = "".join(f"void {name}() {{}}\n" for name in DRIVER_FUNCTIONS)
        with open(f"{work}/driver.c", "w") as file:
            file.write(stub)
        _execute(["gcc", "-shared", "-w", "-Wl,-soname,libcuda.so.1", f"{work}/driver.c", "-o", driver])
        libraries += ["-ltorch_cuda", "-lc10_cuda", f"{cuda}/lib/libcudart.so.13", driver]
    else:
        kernels = "\n".join(re.sub(r"\bcpp_fused_", f"{g.name}_cpp_fused_", g.kernels) for g in generated)
        objects.append(_compile(f"{work}/kernels.cc", kernels, flags + ["-O3", "-fno-tree-loop-vectorize"]))
        libraries += ["-lgomp"]
    _execute(
        ["g++", "-shared", "-s", "-Wl,--gc-sections", "-Wl,-z,defs", "-Wl,--as-needed", *objects, "-o", library, *libraries]
        + [f"-Wl,-rpath-link,{cuda}/lib"]
    )


def write_text(library, lines):
    with open(library, "rb") as file:
        content = file.read()
    text = ["strata package 1", f"library {os.path.basename(library)}", f"bytes {len(content)}"]
    text += [f"sha1 {hashlib.sha1(content).hexdigest()}"]
    text += ["function\t" + "\t".join(line) for line in lines]
    path = library[: -len(".so")] + ".txt"
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "w") as file:
        file.write("\n".join(text) + "\n")
    publish(temporary, path)


def publish(temporary, path):
    """Renames a file after all of it is on the disk, so that a machine that loses its power leaves no short one. A
    program loads no file that others can write, whatever the umask is."""
    os.chmod(temporary, os.stat(temporary).st_mode & ~0o022)
    _sync(temporary)
    os.replace(temporary, path)
    _sync(os.path.dirname(path) or ".")


def _sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_trusted(path):
    """The rule of kernels/runtime/trusted_file.h. The owner of the program is the owner of this file."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and not status.st_mode & 0o022 and status.st_uid in (os.geteuid(), 0, os.stat(__file__).st_uid)


def functions_in(path):
    """Returns the library that a text names, its bytes and SHA-1, and the keys of its functions. Returns no keys if the
    program would not read the text."""
    nothing = "", "", "", set()
    if not is_trusted(path):
        return nothing
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()
    starts = ("strata package ", "library ", "bytes ", "sha1 ")
    if len(lines) <= len(starts) or not all(line.startswith(start) for line, start in zip(lines, starts)):
        return nothing
    version, name, size, digest = (line[len(start) :] for line, start in zip(lines, starts))
    functions = [line.split("\t") for line in lines[len(starts) :]]
    if version != "1" or not name or os.path.basename(name) != name or any(len(fields) != 10 or fields[0] != "function" for fields in functions):
        return nothing
    return os.path.join(os.path.dirname(path), name), size, digest, {fields[1] for fields in functions}


def functions_of(path):
    """Returns the keys of a package's functions, none if the program would not load it or if its library is not that of
    its text. `path` is the text."""
    library, size, digest, keys = functions_in(path)
    if not keys or not is_trusted(library):
        return set()
    with open(library, "rb") as file:
        content = file.read()
    return keys if (str(len(content)), hashlib.sha1(content).hexdigest()) == (size, digest) else set()
