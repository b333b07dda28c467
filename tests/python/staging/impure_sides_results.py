"""Bodies with an `if` on a tensor whose sides give values of different kinds, or raise.

Each function makes what the body changes, and returns the body and what is looked at after each call.
"""

import dataclasses

import torch
from program_table import Programs

CASES = Programs()
case = CASES.add


@case
def none_against_tensor():
    def body(x):
        if x.sum() > 5:
            return None
        return x * 2

    return body, lambda: 0


@case
def the_end_is_reached():
    def body(x):
        if x.sum() > 5:
            return x * 2

    return body, lambda: 0


@case
def the_end_is_reached_below_two_ifs():
    def body(x):
        if x.sum() > 2:
            if x.sum() > 5:
                return x * 2
        elif x.sum() < 0:
            return x, x

    return body, lambda: 0


@case
def the_end_is_reached_behind_a_loop():
    def body(x):
        for i in range(3):
            x = x + 1
            if x.sum() > 10:
                return i, x

    return body, lambda: 0


@case
def the_end_is_reached_behind_a_while():
    def body(x):
        while x.sum() < 9:
            x = x + 1
            if x.sum() > 7:
                return x

    return body, lambda: 0


@case
def the_end_is_reached_in_a_with_and_a_try():
    seen = []

    def body(x):
        with torch.no_grad():
            try:
                if x.sum() > 5:
                    return x * 2
            finally:
                seen.append(x.sum())

    return body, lambda: list(seen)


@case
def the_end_is_reached_behind_a_store():
    best = {"loss": torch.tensor(4.0)}

    def body(x):
        loss = x.sum()
        if loss < best["loss"]:
            best["loss"] = loss
            return loss

    return body, lambda: best["loss"].item()


@case
def three_kinds():
    def body(x):
        if x.sum() > 5:
            return "big"
        if x.sum() > 2:
            return x.sum()
        return (x, 1)

    return body, lambda: 0


@case
def three_strings():
    def body(x):
        if x.sum() > 5:
            return "big"
        if x.sum() > 2:
            return "mid"
        return "small"

    return body, lambda: 0


@case
def assigned_on_one_side():
    def body(x):
        if x.sum() > 5:
            y = x * 2
        else:
            z = x * 3
        return y if x.sum() > 5 else z

    return body, lambda: 0


@case
def unbound_on_one_side():
    def body(x):
        if x.sum() > 5:
            y = x * 2
        return y

    return body, lambda: 0


@case
def other_ranks():
    def body(x):
        if x.sum() > 5:
            y = x * 2
        else:
            y = x.sum()
        return y

    return body, lambda: 0


@case
def other_dtypes():
    def body(x):
        if x.sum() > 5:
            y = x.int()
        else:
            y = x
        return y

    return body, lambda: 0


@dataclasses.dataclass
class Out:
    a: object
    b: object = 1


@case
def dataclasses_of_two_sides():
    def body(x):
        if x.sum() > 5:
            return Out(x * 2)
        return Out(x * 3, 2)

    return body, lambda: 0


@case
def lists_of_other_lengths():
    def body(x):
        out = [x]
        if x.sum() > 5:
            out = [x, x * 2]
        return out

    return body, lambda: 0


@case
def dicts_of_other_keys():
    def body(x):
        if x.sum() > 5:
            d = {"a": x}
        else:
            d = {"b": x * 2}
        return d

    return body, lambda: 0


@case
def custom_error():
    class E(Exception):
        def __init__(self, a, b):
            super().__init__(a)
            self.a, self.b = a, b

    def body(x):
        if x.sum() > 5:
            raise E(1, b=[2])
        return x * 2

    return body, lambda: 0


@case
def error_with_cause():
    def body(x):
        if x.sum() > 5:
            raise ValueError("a") from KeyError("b")
        return x * 2

    return body, lambda: 0


@case
def caught_in_the_body():
    def body(x):
        try:
            if x.sum() > 5:
                raise ValueError("a")
        except ValueError:
            return x * 100
        return x * 2

    return body, lambda: 0


@case
def caught_own_error_around_store():
    log = []

    def body(x):
        try:
            if x.sum() > 5:
                log.append(1)
                raise ValueError("a")
        except ValueError:
            return x * 100
        return x * 2

    return body, lambda: list(log)


@case
def texts_of_tensors():
    def body(x):
        return str(x), repr(x.sum()), f"{x}", "%.2f" % x.sum(), f"{x} {[x]}"

    return body, lambda: 0


@case
def a_text_of_a_tensor_in_a_side():
    said = ["none"]

    def body(x):
        if x.sum() > 5:
            said[0] = f"large: {x}"
        return x * 2

    return body, lambda: said[0]


@case
def a_with_in_a_loop():
    class Entered:
        count = 0

        def __enter__(self):
            self.count += 1
            return self

        def __exit__(self, *_):
            self.count += 10

    entered = Entered()

    def body(x):
        for row in x:
            if row > 5:
                with entered as one:
                    x = x * one.count
        return x * 2

    return body, lambda: entered.count
