# SPDX-License-Identifier: MIT
"""triton_compile.py SOURCE HEADER CODE: compiles the kernels of a _triton.py file to cubins and PTX, without a
GPU. It writes the C++ that embeds and launches them (see kernels/runtime/triton_runtime.h)."""
import importlib
import os
import re
import subprocess
import sys
import sysconfig
import tempfile

sys.path.insert(0, os.getcwd())  # the root of the checkout: `kernels.<op>.<op>_triton` is a module
os.environ["TRITON_DISABLE_LINE_INFO"] = "1"  # smaller cubins
os.environ.pop("TRITON_INTERPRET", None)

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernels.runtime.triton_kernel import ALIGNMENT

HOPPER = 90  # a cubin for sm_90a: compute capability 9.0 and no other
PORTABLE = 80  # PTX, which the driver compiles for 8.0 and all later GPUs
SCALARS = {"i32": ("int64_t", "int32_t", 32), "i64": ("int64_t", "int64_t", 64), "fp32": ("double", "float", 32), "fp64": ("double", "double", 64)}
ELEMENTS = {"fp32": "Float", "bf16": "BFloat16", "fp16": "Half", "fp64": "Double", "i64": "Long", "i32": "Int"}
# Bytes of dynamic shared memory that a block can have: on Hopper, and on the other GPUs that have least (8.6, 8.9 and 12.0).
MOST_SHARED = {HOPPER: 227 * 1024, PORTABLE: 99 * 1024}
FATBINARY = sysconfig.get_path("purelib") + "/nvidia/cu13/bin/fatbinary"
IN_FAT_BINARY = {HOPPER: "kind=elf,sm=90a", PORTABLE: "kind=ptx,sm=80"}


def stop_at_ptx(backend, stages, _options, _language, _capability):
    """Triton calls this with its stages: no cubin is made where PTX is wanted. It takes the last stage for the code."""
    if backend.target.arch == PORTABLE:
        stages["cubin"] = lambda ptx, _metadata: ptx.encode()


def compressed(code, architecture):
    """Returns a fat binary of a cubin or of PTX. A cubin becomes a quarter of its bytes, PTX without its comments a sixth."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "code")
        with open(path, "wb") as file:
            file.write(code)
        subprocess.run([FATBINARY, "--64", "--compress-all", "--compress-mode=size", f"--image3={IN_FAT_BINARY[architecture]},file={path}",
                        f"--create={path}.fatbin"], check=True)
        with open(path + ".fatbin", "rb") as file:
            return file.read()


def compile_one(kernel, specialization, architecture):
    """Returns what Triton says of the kernel, and its code as a fat binary."""
    names = list(kernel.function.arg_names)
    constants = {name: value for name, value in specialization.constants.items() if name in names}
    signature = {name: "constexpr" if name in constants else specialization.types[name] for name in names}
    aligned = kernel.aligned if specialization.aligned else ()
    source = ASTSource(
        fn=kernel.function, signature=signature, constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(names.index(name),): [["tt.divisibility", ALIGNMENT]] for name in aligned})
    options = dict(num_warps=specialization.warps, num_stages=specialization.stages)
    if specialization.registers:
        options["maxnreg"] = specialization.registers
    compiled = triton.compile(source, target=GPUTarget("cuda", architecture, 32), options=options)
    check_entry(kernel, compiled, MOST_SHARED[architecture])
    return compiled.metadata, compressed(compiled.asm["cubin"], architecture)


def check_entry(kernel, compiled, most_shared):
    """The launcher supports only this form: the arguments in order, two pointers to scratch memory that is never
    used, one block per program, no cooperative launch."""
    metadata = compiled.metadata
    entry = re.search(r"\.entry\s+(\w+)\(([^)]*)\)", compiled.asm["ptx"])
    widths = [int(width) for width in re.findall(r"\.param\s+\.[a-z](\d+)", entry[2])]
    expected = [64 if kind[0] == "*" else SCALARS[kind][2] for kind in kernel.arguments.values()] + [64, 64]
    if entry[1] != metadata.name or widths != expected:
        raise SystemExit(f"{metadata.name} takes {widths}, expected {expected}")
    if metadata.global_scratch_size or metadata.profile_scratch_size or metadata.num_ctas != 1 or metadata.launch_cooperative_grid or metadata.launch_pdl:
        raise SystemExit(f"{metadata.name} needs scratch memory, clusters or a special launch: {metadata}")
    if metadata.shared > most_shared:
        raise SystemExit(f"{metadata.name} needs {metadata.shared} bytes of shared memory for {metadata.target}, a block has at most {most_shared}")


def literal(data):
    """Returns bytes as C++ strings. A digit after an octal escape of three digits is not part of it."""
    text = "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}" for byte in data)
    return "\n".join(f'    "{line}"' for line in split_escapes(text, 16000))


def split_escapes(text, size):
    start = 0
    while start < len(text):
        end = start + size
        while end < len(text) and "\\" in text[end - 3:end + 1]:
            end += 1  # an escape is not cut
        yield text[start:end]
        start = end


def constant_name(name):
    return "k" + name.title().replace("_", "") + "Triton"


def parameters(kernel):
    written = [f"const at::Tensor& {name}" if kind[0] == "*" else f"{SCALARS[kind][0]} {name}" for name, kind in kernel.arguments.items()]
    return ", ".join(written + [f"int64_t {name}" for name in kernel.sizes])


def launcher(name, kernel, compiled):
    """Returns the C++ of one kernel: its code, the table of its specializations and its launcher. `compiled` has the
    images of each specialization by architecture."""
    pointers = [argument for argument, kind in kernel.arguments.items() if kind[0] == "*"]
    numbers = [argument for argument, kind in kernel.arguments.items() if kind in ("i32", "i64")] + list(kernel.sizes)
    constants = list(compiled[0][0].constants)
    lines, rows = [], []
    for i, (specialization, binaries) in enumerate(compiled):
        images = []
        for architecture, symbol in ((HOPPER, f"k_{name}_{i}"), (PORTABLE, f"ptx_{name}_{i}")):
            if architecture not in binaries:
                images.append("{}")
                continue
            metadata, image = binaries[architecture]
            lines.append(f"alignas(16) constexpr char {symbol}[] =\n{literal(image)};")
            images.append(f"{{{symbol}, {len(image)}, \"{metadata.name}\", {metadata.num_warps}, {metadata.shared}}}")
        types = ", ".join("at::k" + ELEMENTS[specialization.types[argument][1:]] for argument in pointers)
        values = ", ".join(str(specialization.constants[constant]) for constant in constants)
        rows.append(f"    {{{{{types}}}, {str(specialization.aligned).lower()}, {{{values}}}, {', '.join(images)}}},")
    listing = "\n".join(rows)
    lines.append(f"TritonVariant {name}_variants[] = {{\n{listing}\n}};")
    lines.append("}  // namespace\n")
    aligned_tensors = ", ".join(f"&{argument}" for argument in kernel.aligned if argument in pointers)
    grid = ", ".join(kernel.grid + ("1",) * (3 - len(kernel.grid)))
    locals_ = []
    for argument, kind in kernel.arguments.items():
        if kind[0] == "*":
            locals_.append(f"  const void* {argument}_ = triton_pointer({argument});")
        elif kind == "i32" and argument not in kernel.signed:
            locals_.append(f"  int32_t {argument}_ = call.narrow(\"{argument}\", {argument});")
        else:
            locals_.append(f"  {SCALARS[kind][1]} {argument}_ = static_cast<{SCALARS[kind][1]}>({argument});")
    addresses = ", ".join(f"&{argument}_" for argument in kernel.arguments)
    numbers_text = ", ".join(f'{{"{number}", {number}}}' for number in numbers)
    whole = " && ".join(f"{argument} % {ALIGNMENT} == 0" for argument in kernel.aligned if argument in numbers) or "true"
    values = "".join(f"    [[maybe_unused]] const int64_t {constant} = variant.constants[{i}];\n" for i, constant in enumerate(constants))
    body = "\n".join(locals_)
    checks = "".join(f"  if ({' && '.join(f'{argument} != {number}' for number in named_numbers.values())})\n"
                     f"    call.refuse_number(\"{argument}\", {argument}, \"{kernel.expected(argument)}\");\n"
                     for argument, named_numbers in kernel.named.items())
    lines.append(f"""const TritonKernel {constant_name(name)} = {{"{name}_triton", {name}_variants}};

void launch_{name}_triton({parameters(kernel)}) {{
  const at::Tensor* const tensors[] = {{{", ".join("&" + pointer for pointer in pointers)}}};
  const TritonCall::Number numbers[] = {{{numbers_text}}};
  const TritonCall call({constant_name(name)}.name, tensors, numbers);
{checks}  const bool is_aligned = call.are_aligned({{{aligned_tensors}}}) && {whole};
{body}
  const void *global_scratch = nullptr, *profile_scratch = nullptr;  // Triton's hidden last arguments
  const void* arguments[] = {{{addresses}, &global_scratch, &profile_scratch}};
  for (TritonVariant& variant : {name}_variants) {{
    if ((variant.aligned && !is_aligned) || !call.has_types(variant)) continue;
{values}    if (!({kernel.fits})) continue;
    return variant.image_for(call).launch(call, {{{grid}}}, arguments);
  }}
  call.refuse();
}}

namespace {{""")
    return "\n".join(lines)


def main():
    source, header, code = sys.argv[1:]
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        kernels = importlib.import_module(source.removesuffix(".py").replace("/", ".")).KERNELS
        knobs.runtime.add_stages_inspection_hook = stop_at_ptx
        parts, total = [], {HOPPER: 0, PORTABLE: 0}
        for name, kernel in kernels.items():
            architectures = (HOPPER, PORTABLE) if kernel.portable else (HOPPER,)
            compiled = [(specialization, {architecture: compile_one(kernel, specialization, architecture) for architecture in architectures})
                        for specialization in kernel.specializations()]
            for architecture in architectures:
                total[architecture] += sum(len(binaries[architecture][1]) for _, binaries in compiled)
            parts.append(launcher(name, kernel, compiled))
    note = f"// SPDX-License-Identifier: MIT\n// Made from {source} by Triton {triton.__version__}: {total[HOPPER]} bytes of compressed cubins, {total[PORTABLE]} of PTX.\n"
    include = os.path.join(os.path.dirname(source), os.path.basename(header))
    declarations = "".join(f"extern const TritonKernel {constant_name(name)};\nvoid launch_{name}_triton({parameters(kernel)});\n"
                           for name, kernel in kernels.items())
    with open(header, "w", encoding="utf-8") as file:
        file.write(f"""{note}#pragma once

#include "kernels/runtime/triton_runtime.h"

namespace strata::kernels {{

{declarations}
}}  // namespace strata::kernels
""")
    with open(code, "w", encoding="utf-8") as file:
        file.write(f"""{note}#include "{include}"

namespace strata::kernels {{

using namespace triton;

namespace {{

{chr(10).join(parts)}
}}  // namespace
}}  // namespace strata::kernels
""")


if __name__ == "__main__":
    main()
