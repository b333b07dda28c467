"""What Python's versions do in different ways: the one place where the tests ask for the version."""

import sys

# 3.11.4
NULL_BYTES_REFUSED = sys.version_info >= (3, 11, 4)  # in a source; before, a line ended there

# 3.12
NUMBER_TEXTS = sys.version_info < (3, 12)  # errors of arithmetic have the texts that graphs have
TYPE_PARAMETERS = sys.version_info >= (3, 12)  # and f-strings in f-strings, `type` statements
MONITORING = sys.version_info >= (3, 12)  # sys.monitoring
DICT_WATCHERS = sys.version_info >= (3, 12)  # before, dicts have version tags

# 3.13
TYPE_PARAMETER_DEFAULTS = sys.version_info >= (3, 13)
FACTS_OF_A_CLASS = sys.version_info >= (3, 13)  # __firstlineno__, __static_attributes__
STORES_TO_F_LOCALS = sys.version_info >= (3, 13)  # reach the variable
ONE_BELOW_CLASSMETHOD = sys.version_info >= (3, 13)  # it asks what it wraps for no bound one

# 3.14
DEFERRED_ANNOTATIONS = sys.version_info >= (3, 14)  # evaluated when they are asked for
TEMPLATE_STRINGS = sys.version_info >= (3, 14)
BOUND_PARTIALS = sys.version_info >= (3, 14)  # a partial of a class gets the instance
