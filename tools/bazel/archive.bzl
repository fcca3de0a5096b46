"""archive: programs and what they need in one file, for machines with Open MPI and the torch wheel, without Bazel."""

# Makes $$folder/strata of all sources. Its SHA256SUMS has the hashes of all other files in it, and of what its links lead to.
_FOLDER = """
    folder=$$(mktemp -d)
    trap 'rm -rf $$folder' EXIT
    mkdir -p $$folder/strata/bin
    for file in $(SRCS); do
      case $$file in
        bazel-out/*/bin/kernels/*_packages) mkdir -p $$folder/strata/kernels && cp -rL $$file $$folder/strata/kernels/ ;;
        bazel-out/*/bin/tools/*.spdx.json) cp -L $$file $$folder/strata/ ;;
        bazel-out/*/bin/*)
          name=$$(basename $$file) target=$$(basename $$(readlink -f $$file))
          if [ $$name = $$target ]; then cp -L $$file $$folder/strata/bin/; else ln -s $$target $$folder/strata/bin/$$name; fi ;;
        *) mkdir -p $$folder/strata/$$(dirname $$file) && cp -L $$file $$folder/strata/$$file ;;
      esac
    done
    chmod -R u=rwX,go=rX $$folder
    chmod 755 $$folder/strata/bin/* $$folder/strata/tools/strata
    (cd $$folder/strata && find . ! -type d -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 sha256sum) > $$folder/SHA256SUMS
    mv $$folder/SHA256SUMS $$folder/strata/
    chmod 644 $$folder/strata/SHA256SUMS
    tar -C $$folder --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -c strata """

# Level 6 takes three times as long, for a file that is smaller by an eighth.
_COMPRESSED = """| gzip -1 -n > $(location {out})
    (cd $$(dirname $(location {out})) && sha256sum {out}) > $(location {out}.sha256)"""

def archive(name, out, srcs, **kwargs):
    """`out` is a .tar.gz, beside which its hash is written, or a .tar. The same sources give the same bytes."""
    compressed = out.endswith(".gz")
    native.genrule(
        name = name,
        testonly = True,
        srcs = srcs,
        outs = [out, out + ".sha256"] if compressed else [out],
        cmd = _FOLDER + (_COMPRESSED.format(out = out) if compressed else "> $@"),
        **kwargs
    )
