"""library and unit_test: a library is name.h and name.cc, and its test is name.cc. BUILD files write only the differences."""

def library(name, srcs = None, hdrs = None, **kwargs):
    """The cc_library of name.h and name.cc, unless srcs or hdrs are given. One of the two files may be missing."""
    if srcs == None and hdrs == None:
        srcs = native.glob([name + ".cc"])
        hdrs = native.glob([name + ".h"])
        if not srcs and not hdrs:
            fail("neither %s.h nor %s.cc is in this folder" % (name, name))
    native.cc_library(name = name, srcs = srcs, hdrs = hdrs, **kwargs)

def unit_test(name, srcs = None, deps = [], **kwargs):
    """The GoogleTest program of name.cc, unless srcs are given."""
    native.cc_test(name = name, srcs = srcs or [name + ".cc"], deps = deps + ["@debian//:gtest_main"], **kwargs)
