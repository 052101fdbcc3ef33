"""The static policy for CPU sources: what a candidate may include, name and declare, read off its tokens without running anything.

The sandbox is the wall; this exists so that whoever oversteps is told early, at `file:line:column`, and what is allowed instead.
It counts on seeing every name as it is written. So whatever makes names from parts (token pasting, escapes, raw strings, macros
with half of a bracket) is refused as such.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, islice

from runner.candidate import Candidate, candidate_from_files
from runner.errors import Fault, FaultsError
from runner.identity import MANIFEST_NAME
from runner.manifest import DeviceLaunch
from runner.manifest_check import check_manifest, define_texts
from runner.spec.models import Policy, Spec
from runner.targets.cpu import words
from runner.targets.cpu.cpp_lexer import Lexed, Problem, Token, at, lex
from runner.targets.cpu.declarations import Code, check_attributes, check_linkage, check_operators, own_names, texts
from runner.targets.cpu.preprocessing import check_directive, check_pragma_operators, is_directive, macro_body, macro_name_problem
from runner.yaml_source import Source, read_yaml

MAX_MESSAGES = 20
LONG_LIST = 100  # characters
MAX_FOUND = 1000  # in one file
SUFFIXES = (".cpp", ".hpp")


def check_sources(files: Mapping[str, bytes], spec: Spec) -> tuple[str, ...]:
    """What these files (a candidate's, by name) may not contain, as `file:line:column: message`; empty when all is allowed.

    `launch.yaml` is checked first, against the spec and against the policy; sources only when it can be read.
    """
    try:
        candidate = candidate_from_files(files, ".", spec.policy)
    except FaultsError as error:
        return _messages(error.faults)
    faults = [*check_manifest(spec, candidate), *_check_launch(candidate, spec.policy)]
    functions = [launch.function for launch in candidate.manifest.calls]
    sources = {name: lex(data.decode()) for name, data in candidate.files.items() if name.endswith(SUFFIXES)}
    own_words: set[str] = set().union(*(own_names(Code(lexed.tokens)) for lexed in sources.values()))
    for name, lexed in sources.items():
        found = islice(_check_source(lexed, sources, functions, own_words, spec.policy), MAX_FOUND)
        faults += [Fault(name, problem.line, problem.column, problem.message) for problem in found]
    return _messages(faults)


def _messages(faults: Sequence[Fault]) -> tuple[str, ...]:
    ordered = _without_repeated_lists([str(fault).removeprefix("./") for fault in sorted(set(faults))])
    if len(ordered) > MAX_MESSAGES:
        ordered = [*ordered[:MAX_MESSAGES], f"and {len(ordered) - MAX_MESSAGES} more"]
    return tuple(ordered)


def _without_repeated_lists(messages: Sequence[str]) -> list[str]:
    """A long list of what is allowed stands in the first message that has it."""
    seen: set[str] = set()
    shorter = []
    for message in messages:
        head, found, allowed = message.partition("; allowed: ")
        repeated = found and len(allowed) > LONG_LIST and allowed in seen
        seen.add(allowed)
        shorter.append(f"{head}; allowed: as listed above" if repeated else message)
    return shorter


def _check_launch(candidate: Candidate, policy: Policy) -> Iterator[Fault]:
    """The parts of `launch.yaml` that reach the compiler."""
    manifest = candidate.manifest
    source: Source = read_yaml(candidate.files[MANIFEST_NAME], MANIFEST_NAME)
    functions = [launch.function for launch in manifest.calls]
    for name in candidate.files:
        if name != MANIFEST_NAME and not name.endswith(SUFFIXES):
            yield Fault(name, 1, 1, "target cpu takes .cpp and .hpp files only")
    if not any(name.endswith(".cpp") for name in manifest.sources):
        yield source.fault(("sources",), "no .cpp file is listed; at least one is compiled")
    for index, launch in enumerate(manifest.launches):
        if isinstance(launch, DeviceLaunch):
            yield source.fault(("launches", index), "a `kernel` is launched on a GPU; target cpu calls a `function`")
    if manifest.tensor_maps:
        yield source.fault(("tensor_maps",), "tensor maps are for targets with a GPU", key=True)
    if manifest.build.fast_math and not policy.fast_math:
        yield source.fault(("build", "fast_math"), "`fast_math` is not allowed by the spec's policy; allowed: false")
    for index, function in enumerate(functions):
        if function in words.LIBRARY or function in words.REFUSED or function in words.ORDINARY or function.startswith("_"):
            yield source.fault(("launches", index, "function"), f"`{function}` is a name of the system's libraries; choose another")
    for name, found in define_texts(manifest).items():
        problem = macro_name_problem(name, functions)
        if problem:
            yield source.fault(("build", "defines", name), problem, key=True)
        for text in sorted(found):
            if not _is_plain_word(text):
                types = ", ".join(sorted(words.TYPES))
                message = f"`{name}` can become `{text[:40]}`; allowed: whole numbers, names of one's own, and the types {types}"
                yield source.fault(("build", "defines", name), message)


def _is_plain_word(text: str) -> bool:
    """Whether a define's text is one token that could stand in a source without a complaint."""
    lexed = lex(text)
    if lexed.problems or len(lexed.tokens) != 1 or lexed.tokens[0].kind not in ("name", "number"):
        return False
    return text in words.TYPES or (text not in words.KEYWORDS | words.ORDINARY.keys() and not _name_problem(text))


def _check_source(
    lexed: Lexed, files: Collection[str], functions: Sequence[str], own_words: Collection[str], policy: Policy
) -> Iterator[Problem]:
    yield from lexed.problems
    code: list[Token] = []
    for line in lexed.lines():
        if not is_directive(line):
            code += line
            continue
        yield from check_directive(line, files, functions, policy.fast_math)
        if texts(line, 1, 1) == ["define"]:
            yield from _check_code(macro_body(line), functions, own_words, policy)
        else:
            yield from _check_names(line[2:], set(), own_words)
    yield from _check_code(code, functions, own_words, policy)


def _check_code(tokens: Sequence[Token], functions: Sequence[str], own_words: Collection[str], policy: Policy) -> Iterator[Problem]:
    """A run of tokens that is compiled as it is: the file without its preprocessor lines, or a macro's body."""
    run = Code(tokens)
    attributes, problems = check_attributes(run, policy.fast_math)
    yield from problems
    yield from chain(check_linkage(run, functions), check_operators(tokens), check_pragma_operators(tokens, policy.fast_math))
    yield from _check_names(tokens, attributes, own_words)


def _check_names(tokens: Sequence[Token], attributes: Collection[int], own_words: Collection[str]) -> Iterator[Problem]:
    for index, token in enumerate(tokens):
        if token.kind != "name" or index in attributes:
            continue
        problem = _name_problem(token.text)
        if not problem and token.text in words.ORDINARY and _means_the_system(tokens, index, own_words):
            problem = f"`{token.text}` of the system is not allowed: a kernel does not reach {words.ORDINARY[token.text]}"
        if problem:
            yield at(token, problem)


def _name_problem(name: str) -> str:
    """Why a name must not stand in a source, wherever it stands; empty when it may."""
    if name in words.ASSEMBLY:
        return "inline assembly is not allowed; use intrinsics (immintrin.h)"
    if name in words.REFUSED:
        return f"`{name}` is not allowed: a kernel does not reach {words.REFUSED[name]}"
    if name in words.MODULES:
        return f"`{name}` is not allowed: there are no modules here; use #include"
    if name == "gnu":
        return "`gnu` is allowed within `[[gnu::attribute]]` only"
    if words.is_reserved(name) and not words.is_harmless_reserved(name):
        allowed = "intrinsics, vector types, arithmetic builtins and feature macros"
        return f"`{name}` is not allowed: it begins like the compiler's own names, of which {allowed} are allowed"
    return ""


def _means_the_system(tokens: Sequence[Token], index: int, own_words: Collection[str]) -> bool:
    """Whether an ordinary word (`read`, `time`) stands for the system's function: called unqualified, or as `std::` or `::`."""
    before = tokens[index - 1].text if index else ""
    if before in (".", "->"):
        return False
    if before == "::":
        scope = tokens[index - 2] if index > 1 else None
        return scope is None or scope.text == "std" or (scope.kind != "name" and scope.text != ">")
    return texts(tokens, index + 1, 1) == ["("] and tokens[index].text not in own_words
