"""headers: the headers of the checkout that a library and its deps have, as files."""

def _headers_impl(ctx):
    headers = ctx.attr.library[CcInfo].compilation_context.headers.to_list()
    own = [file for file in headers if file.is_source and not file.owner.workspace_name]
    return [DefaultInfo(files = depset(own), runfiles = ctx.runfiles(own))]

headers = rule(implementation = _headers_impl, attrs = {"library": attr.label(providers = [CcInfo], mandatory = True)})
