"""`kernel-spec/v1` as pydantic models: the vocabulary in which a person says what is to be built.

The vocabulary is a superset of FlashInfer-Bench's definition and workload schemas, so that both directions convert.
An `Expression` is text such as `4 * rows * cols`, evaluated by `runner.spec.expressions` over axes and scalars.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

# Each pattern of the vocabulary, with the words in which a fault says what is allowed.
NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,63}$"
SPEC_ID = r"^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$"
LABEL = r"^[A-Za-z0-9][A-Za-z0-9._ -]{0,63}$"
ENTRY = r"^[A-Za-z_][A-Za-z0-9_]*\.py:[A-Za-z_][A-Za-z0-9_]*$"
AGENT = r"^[a-z][a-z0-9-]{0,31}$"
START = r"^(kernel|seeds/[a-z0-9][a-z0-9-]{0,62})$"
SOURCE = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\.(cpp|hpp|cu|cuh)$"
PATTERNS = {
    NAME: "a letter or _, then up to 63 letters, digits or _",
    SPEC_ID: "up to 64 lower-case letters, digits and dashes, a dash neither first nor last",
    LABEL: "a letter or digit, then up to 63 letters, digits, dots, underscores, spaces or dashes",
    ENTRY: "`file.py:function`, where the file is in the spec's folder",
    AGENT: "a lower-case letter, then up to 31 lower-case letters, digits or dashes",
    START: "`kernel`, or `seeds/` and a name of lower-case letters, digits and dashes",
    SOURCE: "a file name without folders that ends in .cpp, .hpp, .cu or .cuh",
}

Name = Annotated[str, Field(pattern=NAME)]
SpecId = Annotated[str, Field(pattern=SPEC_ID)]
Label = Annotated[str, Field(pattern=LABEL)]
Entry = Annotated[str, Field(pattern=ENTRY)]
Expression = Annotated[str, Field(min_length=1, max_length=400)]
DType = Literal["float32", "float64", "float16", "bfloat16", "int32", "int64"]


class Model(BaseModel):
    """The base of every model that a person writes: unknown keys are faults, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class ConstAxis(Model):
    """An axis with one length in every workload."""

    type: Literal["const"]
    value: Annotated[int, Field(ge=0)]
    description: str = ""


class VarAxis(Model):
    """An axis whose length each workload gives, between `min` and `max`."""

    type: Literal["var"]
    min: Annotated[int, Field(ge=0)] = 0
    max: Annotated[int, Field(ge=0)] | None = None
    description: str = ""


class ExprAxis(Model):
    """An axis whose length follows from the others."""

    type: Literal["expr"]
    expr: Expression
    description: str = ""


Axis = Annotated[ConstAxis | VarAxis | ExprAxis, Field(discriminator="type")]


class Special(Model):
    """Values planted at random places of a tensor: `count` elements (at most the tensor's size) set to `value`."""

    value: Literal["inf", "-inf", "nan", "zero", "denormal", "max"]
    count: Annotated[int, Field(ge=1)]


class Init(Model):
    """How the judge fills an input.

    `normal` has `mean` and `std`; `uniform` lies in [`low`, `high`); `constant` is `value` everywhere. `row_scale` multiplies
    each slice along the first axis by a factor drawn log-uniformly from the range, so that no kernel can rely on one scale.
    """

    kind: Literal["normal", "uniform", "constant"] = "normal"
    mean: float = 0.0
    std: Annotated[float, Field(gt=0)] = 1.0
    low: float = 0.0
    high: float = 1.0
    value: float = 0.0
    row_scale: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]] | None = Field(default=None, strict=False)
    special: tuple[Special, ...] = Field(default=(), strict=False)


class Input(Model):
    """A tensor that the kernel reads. `align` is the address alignment in bytes that workloads without `offset` guarantee."""

    dtype: DType
    shape: tuple[int | Expression, ...] = Field(strict=False)
    init: Init = Init()
    optional: bool = False
    align: Literal[4, 8, 16, 32, 64, 128, 256] = 64
    description: str = ""


class Output(Model):
    """A tensor that the kernel writes, every element of it; an `optional` one only where a workload has it.

    `independent` is the axis along which this output depends only on the same slice of every input that has the axis, where the spec's
    own `independent` does not hold for every output: a sum over rows can still be checked by columns.
    """

    dtype: DType
    shape: tuple[int | Expression, ...] = Field(strict=False)
    optional: bool = False
    align: Literal[4, 8, 16, 32, 64, 128, 256] = 64
    independent: Name | None = None
    description: str = ""


class Scalar(Model):
    """A number passed by value."""

    dtype: DType
    value: float | int
    description: str = ""


class WorkloadSpec(Model):
    """One workload as written: lengths of the `var` axes, and what differs from the spec's defaults.

    `offset` moves a tensor by so many elements from its aligned address (an offset view); `init` replaces an input's generator, `dtype` a
    tensor's dtype; `absent` names optional tensors that this workload lacks.
    """

    name: Label
    axes: dict[Name, Annotated[int, Field(ge=0)]] = {}
    init: dict[Name, Init] = {}
    offset: dict[Name, Annotated[int, Field(ge=0, le=4096)]] = {}
    dtype: dict[Name, DType] = {}
    absent: tuple[Name, ...] = Field(default=(), strict=False)


class Draw(Model):
    """A range from which a hidden workload draws an axis length, uniformly in the value or in its logarithm."""

    low: Annotated[int, Field(ge=0)]
    high: Annotated[int, Field(ge=0)]
    scale: Literal["linear", "log"] = "linear"
    multiple_of: Annotated[int, Field(ge=1)] = 1


class HiddenSpec(Model):
    """`count` workloads whose axis lengths the judge draws with a secret seed, anew for every evaluation."""

    name: Label
    count: Annotated[int, Field(ge=1, le=64)] = 1
    axes: dict[Name, Draw | Annotated[int, Field(ge=0)]] = {}
    init: dict[Name, Init] = {}
    offset: dict[Name, Annotated[int, Field(ge=0, le=4096)]] = {}
    dtype: dict[Name, DType] = {}
    absent: tuple[Name, ...] = Field(default=(), strict=False)


class Workloads(Model):
    """`public` ones are timed and checked; `edge` and `hidden` ones are checked."""

    public: tuple[WorkloadSpec, ...] = Field(min_length=1, strict=False)
    edge: tuple[WorkloadSpec, ...] = Field(default=(), strict=False)
    hidden: tuple[HiddenSpec, ...] = Field(default=(), strict=False)
    screening: tuple[Label, ...] = Field(default=(), strict=False)


class Bounds(Model):
    """How far an output may lie from the float64 oracle. All bounds must hold.

    `max_ulp` bounds every element, in units of the output dtype's spacing at the expected value, which is never taken smaller
    than `floor` times the root mean square of the expected output; `norm` bounds ‖actual − expected‖₂ / ‖expected‖₂.
    Not-a-number and infinities must match exactly. `misrounded` bounds the share of elements that differ from the oracle rounded to the
    output's dtype, and `bias` the mean signed error in its spacings: for 16-bit outputs, whose own spacing would hide a computation in as
    few bits.
    """

    max_ulp: Annotated[float, Field(gt=0)]
    norm: Annotated[float, Field(gt=0)]
    floor: Annotated[float, Field(ge=0)] = 0.0
    misrounded: Annotated[float, Field(gt=0, le=1)] | None = None
    bias: Annotated[float, Field(gt=0)] | None = None


class Tolerance(Bounds):
    """The bounds of an output; `dtypes` has others for workloads that give it another dtype."""

    dtypes: dict[DType, Bounds] = {}

    def of(self, dtype: DType) -> Bounds:
        """The bounds for an output of this dtype."""
        return self.dtypes.get(dtype, self)


class Hardware(Model):
    """Where the spec is judged."""

    target: Literal["cpu", "sm_90a", "sm_100a"]
    runner_labels: tuple[Label, ...] = Field(default=(), strict=False)


class Baseline(Model):
    """An existing implementation: `entry` is `file.py:function`, called with inputs, outputs and scalars by name, writing into the outputs.

    With `autotune: fresh` the judge compiles the function anew for each workload's shapes. `package` is the distribution that it needs:
    where that isn't installed, the baseline is left out.

    `configs` names a function of the same folder that finds the configurations worth timing on a workload: it is called with `sets` (the
    arguments of several calls, at addresses of their own) and `seconds` (its time), and returns texts, the best first. The judge times
    `entry` with each text as `config`, and keeps the fastest. For targets with a GPU.
    """

    name: Label
    entry: Entry
    autotune: Literal["fresh", "none"] = "none"
    package: str = Field(default="", pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*)?$", max_length=80)
    configs: Entry | None = None
    config_seconds: int = Field(default=60, ge=1, le=3600)


class Metric(Model):
    """What is measured: the time of a call, aggregated over the public workloads; `cold_cache` means no operand is in a cache."""

    objective: Literal["time"] = "time"
    aggregate: Literal["geomean"] = "geomean"
    cold_cache: bool = True


class Roofline(Model):
    """The fewest bytes that must move and the operations that must be done, as expressions over the axes."""

    bytes: Expression
    flops: Expression


class Accept(Model):
    """What a winner must reach: the lower end of its geomean interval above `min_speedup`, and no workload whose interval lies
    wholly under `min_workload_speedup`."""

    min_speedup: Annotated[float, Field(gt=0)] = 1.02
    min_workload_speedup: Annotated[float, Field(gt=0)] = 0.97
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    approval: Literal["required", "none"] = "required"


class Policy(Model):
    """What a candidate's sources may be and do. With `sanitize` the machine's checking tools, where it has any, look at a candidate in a
    full judgement."""

    fast_math: bool = False
    sanitize: bool = False
    max_files: Annotated[int, Field(ge=1, le=64)] = 16
    max_bytes: Annotated[int, Field(ge=1, le=4_000_000)] = 262_144
    build_seconds: Annotated[int, Field(ge=1, le=600)] = 60
    run_seconds: Annotated[int, Field(ge=1, le=600)] = 20


class Budget(Model):
    """Where a campaign stops: rounds, evaluations of either tier, minutes of the judging device, dollars for models."""

    rounds: Annotated[int, Field(ge=1, le=1000)] = 3
    candidates: Annotated[int, Field(ge=1, le=100_000)] = 60
    device_minutes: Annotated[float, Field(gt=0)] = 30.0
    usd: Annotated[float, Field(ge=0)] = 0.0


class AgentSpec(Model):
    """One lineage: which agent works on it, with which strategy, from which kernel (`kernel` or a folder under `seeds/`)."""

    name: Annotated[str, Field(pattern=AGENT)]
    kind: Literal["search", "author"]
    strategy: Literal["tpe", "local", "random"] = "tpe"
    start: Annotated[str, Field(pattern=START)] = "kernel"


class Spec(Model):
    """A kernel spec. See the module's text for where each word comes from; `independent` names axes along which outputs
    depend only on the same slice of every input that has the axis, so that the oracle may work in slices and samples."""

    schema_: Literal["kernel-spec/v1"] = Field(alias="schema")
    id: SpecId
    title: Annotated[str, Field(min_length=1, max_length=120)]
    description: str = ""
    axes: dict[Name, Axis] = Field(min_length=1)
    scalars: dict[Name, Scalar] = {}
    inputs: dict[Name, Input] = Field(min_length=1)
    outputs: dict[Name, Output] = Field(min_length=1)
    constraints: tuple[Expression, ...] = Field(default=(), strict=False)
    reference: Entry
    independent: tuple[Name, ...] = Field(default=(), strict=False)
    workloads: Workloads
    tolerance: dict[Name, Tolerance]
    hardware: Hardware
    baselines: tuple[Baseline, ...] = Field(min_length=1, strict=False)
    metric: Metric = Metric()
    roofline: Roofline
    accept: Accept = Accept()
    policy: Policy = Policy()
    budget: Budget = Budget()
    agents: tuple[AgentSpec, ...] = Field(default=(), strict=False)
