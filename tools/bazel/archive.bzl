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
_COMPRESSED = """| gzip -1 -n > $(location {archive})
    (cd $$(dirname $(location {archive})) && sha256sum {archive}) > $(location {hash})"""

def archive(name, outs, srcs, **kwargs):
    """`outs` are a .tar.gz and the file of its hash, which `sha256sum -c` reads, or one .tar. The same sources give the same bytes."""
    redirection = "> $@" if len(outs) == 1 else _COMPRESSED.format(archive = outs[0], hash = outs[1])
    native.genrule(
        name = name,
        testonly = True,
        srcs = srcs,
        outs = outs,
        cmd = _FOLDER + redirection,
        **kwargs
    )
