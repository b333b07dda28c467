"""What tracehost raises and warns with. Plain classes: nothing is imported."""


class Error(Exception):
    """Base of all that tracehost raises of its own."""


class SignatureError(Error, TypeError):
    """An argument can't be compared, or does not fit a declared signature."""


class ValueReadError(Error, TypeError):
    """The body reads a traced tensor's value, which a graph can't repeat."""


class StagingError(Error):
    """Control flow on tensors that can't become part of a graph."""


class CaptureError(Error):
    """The body uses a tensor that later calls could not find again."""


class ArchiveError(Error):
    """An archive can't be written or read."""


class TraceError(Error):
    """Any other reason why a trace would not be right."""


class RetraceWarning(UserWarning):
    """A function is traced again and again."""


class SideEffectWarning(UserWarning):
    """The body changes Python state, which happens only when it is traced."""


class TraceWarning(UserWarning):
    """Something about a trace that a user should know."""


# Users know them by the package's name: tracebacks, filters and pickles say tracehost.TraceError.
for _class in list(globals().values()):
    if isinstance(_class, type) and _class.__module__ == __name__:
        _class.__module__ = "tracehost"
