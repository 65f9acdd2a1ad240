"""What must hold of a compiled function's variables: a question about a place, and the answer when it was traced.

Who uses it: guards.py asks and writes the answers down, program.py asks again. What it is not: the sizes of tensors
(program.py), or the places (places.py)."""

from __future__ import annotations

import enum
import hashlib
import operator
from collections.abc import Callable
from types import BuiltinFunctionType, CodeType, MethodDescriptorType, ModuleType, WrapperDescriptorType
from typing import Any

import torch

from torch_npu.dynamo.npugraph_ex import graph_text, places
from torch_npu.dynamo.npugraph_ex.cache_file import Unusable
from torch_npu.dynamo.npugraph_ex.places import Scope

_DESCRIBED = (type, MethodDescriptorType, WrapperDescriptorType)


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _name(value: Any) -> str:
    """Of a function, class, module or member of an enumeration, as every process has it: functions also by where in
    their file they are. ValueError for other objects."""
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, enum.Enum):
        return f"{_type_name(value)}.{value.name}"
    if isinstance(value, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return f"operator {value}"
    code = value if isinstance(value, CodeType) else getattr(value, "__code__", None)
    if isinstance(code, CodeType):
        where = hashlib.sha256(repr(list(code.co_positions())).encode()).hexdigest()[:16]
        return f"{getattr(value, '__module__', None)}.{code.co_qualname} {where}"
    free = isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, (type, ModuleType, type(None)))
    if free or isinstance(value, _DESCRIBED):
        return f"{getattr(value, '__module__', None)}.{value.__qualname__}"
    raise ValueError(f"a {_type_name(value)} has no name that another process knows it by")


# What can be asked of a place.
ASKED: dict[str, Callable[[Any], Any]] = {
    "value": lambda value: (type(value), value),
    "type": _type_name,
    "length": len,
    "keys": lambda value: list(value.keys()),
    "name": _name,
}
# What can be asked of a place about a name or key; the answer is yes or no.
ABOUT: dict[str, Callable[[Any, Any], bool]] = {
    "has": hasattr,
    "own": lambda value, name: name in vars(value),  # and not its class's alone
    "contains": lambda value, key: key in value,
}
# Asked of the module itself, too, at each call: the rest of a module stays as it is after the first.
_EACH_CALL = ("value", "own", "same")


class Place:
    """A place that is looked up at each call. Of the module itself the way is remembered, up to the last step."""

    def __init__(self, text: str, own: str, scope: Scope) -> None:
        self.text, self._steps, self._parent = text, places.parse(text), None
        self.own = self._steps[0] == ("L", own)
        self.of_call = self._steps[0][0] == "L" and not self.own
        if self.own and self._steps[-1][0] in ("attribute", "item") and all(k != "asked" for k, _ in self._steps):
            self._parent = places.follow(self._steps[:-1], scope)
            self._last = self._steps[-1][1]
            self._is_item = self._steps[-1][0] == "item"

    @property
    def attribute(self) -> tuple[Any, str] | None:
        """The object and the name, of an attribute of the module or of a part of it."""
        return None if self._parent is None or self._is_item else (self._parent, self._last)

    def find(self, scope: Scope) -> Any:
        if self._parent is None:
            return places.follow(self._steps, scope)
        return self._parent[self._last] if self._is_item else getattr(self._parent, self._last)


class Fact:
    """What is asked of a place, and what the answer was."""

    def __init__(self, kind: str, place: Place, answer: Any, make: Callable[[str], Place]) -> None:
        """`make`: a place of its text. LookupError, TypeError or ValueError for what guards.py does not write."""
        self.kind, self.place, self.asked = kind, place, kind
        if kind == "same":
            self._other = make(answer)
            self.asked, self.wanted = f'answer to "is {self._other.text}"', True
        elif kind in ABOUT:
            about, self.wanted = answer
            self._about, self._ask_about = graph_text.value_of(about, {}), ABOUT[kind]
            self.asked = f'answer to "{kind} {self._about!r}"'
        else:
            if kind == "value":
                answer = graph_text.value_of(answer, {})
                answer = type(answer), answer
            self.wanted, self._ask = answer, ASKED[kind]
        self.each_call = place.of_call or kind in _EACH_CALL

    def _found(self, scope: Scope) -> Any:
        value = self.place.find(scope)
        if self.kind == "same":
            return value is self._other.find(scope)
        return self._ask_about(value, self._about) if self.kind in ABOUT else self._ask(value)

    def check(self, scope: Scope) -> None:
        found = self._found(scope)
        if found != self.wanted:
            found, wanted = (value[1] if self.kind == "value" else value for value in (found, self.wanted))
            shown = "a tensor" if isinstance(found, torch.Tensor) else repr(found)
            raise Unusable(f"the {self.asked} of {self.place.text} is {shown}; the graph was made for {wanted!r}")


class _Attributes:
    """Facts about the attributes of one object, asked at once: 0.2 us, however many there are."""

    def __init__(self, facts: list[Fact]) -> None:
        self._facts = facts
        self._object = facts[0].place.attribute[0]
        self._get = operator.attrgetter(*(fact.place.attribute[1] for fact in facts))
        wanted = [fact.wanted for fact in facts]
        self._types = tuple(kind for kind, _ in wanted)
        self._values = tuple(value for _, value in wanted)
        if len(facts) == 1:
            self._values = self._values[0]

    def check(self, scope: Scope) -> None:
        found = self._get(self._object)
        types = tuple(map(type, found)) if len(self._facts) > 1 else (type(found),)
        if types != self._types or found != self._values:
            for fact in self._facts:
                fact.check(scope)


def at_each_call(facts: list[Fact]) -> list[Fact | _Attributes]:
    """Those of `facts` that are checked at each call, the module's own values by object."""
    asked = [fact for fact in facts if fact.each_call]
    values = [f for f in asked if f.place.own and f.kind == "value" and f.place.attribute is not None]
    of_object: dict[int, list[Fact]] = {}
    for fact in values:
        of_object.setdefault(id(fact.place.attribute[0]), []).append(fact)
    return [fact for fact in asked if fact not in values] + [_Attributes(group) for group in of_object.values()]
