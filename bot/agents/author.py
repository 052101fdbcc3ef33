"""The `author` agent: a model writes kernels. A strategist names one hypothesis, an author writes it, a repairer mends what is refused.

Everything that the model says is data: files are read by the same rules as any candidate's, and no time of the device is spent
before policy and build have nothing against them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bot.agents import prompts
from bot.agents.answers import AnswerError, AnswerT, Draft, Idea, parse
from bot.agents.chat import ChatModel, Message, Purse
from bot.agents.protocol import Brief, Proposal, TuningRequest
from bot.evidence import space
from bot.evidence.novelty import is_known, normalized_hash
from runner.candidate import Candidate, Provenance, candidate_from_files
from runner.errors import FactoryError
from runner.identity import source_hash

Gate = Callable[[Candidate], str | None]
REPAIRS = 3
MISREADINGS = 1  # how often one question is asked again when its answer can't be read


class AuthorAgent:
    """Writes one kernel a round. `gate` says what policy or build have against a candidate, or None."""

    def __init__(self, name: str, model: ChatModel, gate: Gate) -> None:
        self.name = name
        self.model = model
        self.gate = gate
        self.note = ""

    def propose(self, brief: Brief) -> Sequence[Proposal]:
        """One new kernel that passed the gate, with a search over its knobs if it has any. None when the model, its budget or the
        repairs gave out: `note` then says why."""
        self.note = ""
        if brief.trials < 1:
            self.note = "no evaluations are left for this round"
            return ()
        base = brief.best or brief.start
        try:
            candidate, hypothesis = self._written(brief, base)
        except FactoryError as error:
            self.note = f"the author proposed nothing: {error}"
            return ()
        provenance = Provenance(agent=brief.agent, kind="model", parent=base.tree, hypothesis=hypothesis)
        return (Proposal(candidate=candidate, provenance=provenance, tuning=_tuning(brief, candidate)),)

    def _written(self, brief: Brief, base: Candidate) -> tuple[Candidate, str]:
        idea, _ = self._asked(brief, prompts.strategist(brief, base), Idea)
        draft, answer = self._asked(brief, prompts.author(brief, base, idea.hypothesis), Draft)
        for left in range(REPAIRS, -1, -1):
            candidate, objection = self._read(brief, draft)
            if candidate is not None and not objection:
                return candidate, draft.hypothesis
            if left:
                draft, answer = self._asked(brief, prompts.repairer(brief, answer, objection), Draft)
        raise AnswerError(f"after {REPAIRS} repairs its kernel is still refused: {objection[:500]}")

    def _read(self, brief: Brief, draft: Draft) -> tuple[Candidate | None, str]:
        """The drafted candidate, and what there is against it: its files, that it was tried before, or the gate's message."""
        # A lone surrogate, which JSON can carry, is no text: it becomes bytes that the candidate's own rules refuse.
        files = {name: text.encode("utf-8", "surrogatepass") for name, text in draft.files.items()}
        try:
            candidate = candidate_from_files(files, "kernel", brief.spec.spec.policy)
        except FactoryError as error:
            return None, str(error)
        remark = next((one for one in reversed(brief.remarks) if one.kernel_tree == candidate.tree), None)
        if remark is not None:
            return candidate, f"a reviewer refused exactly this kernel: {remark.text[:2000]}"
        mine = [experiment for experiment in brief.experiments if experiment.campaign == brief.campaign]
        known = is_known(candidate.tree, brief.spec.spec_hash, mine, normalized=normalized_hash(candidate))
        if known is not None:
            outcome = f"{known.speedup:.3f}x the baseline" if known.speedup is not None else known.message
            return candidate, f"this kernel was tried before as {known.id} ({known.verdict}: {outcome}); change more than comments"
        return candidate, self.gate(candidate) or ""

    def _asked(self, brief: Brief, messages: Sequence[Message], kind: type[AnswerT]) -> tuple[AnswerT, str]:
        """The answer to a question, read and as it came. An answer that can't be read is shown to the model again, with the fault."""
        purse = Purse(brief.campaign, self.name, brief.spec.spec.budget.usd)
        conversation = list(messages)
        for left in range(MISREADINGS, -1, -1):
            text = self.model.ask(conversation, kind.model_json_schema(), purse, seed=brief.seed)
            try:
                return parse(text, kind), text
            except AnswerError as error:
                if not left:
                    raise
                conversation += [
                    Message("assistant", text),
                    Message("user", "That is not the JSON that was asked for. Answer again.\n\n" + prompts.quote("fault", str(error))),
                ]
        raise AssertionError("the loop returns or raises")


def _tuning(brief: Brief, candidate: Candidate) -> TuningRequest | None:
    """A search over the knobs where the author left the choice open: it wrote knobs, and no table."""
    if not candidate.manifest.knobs or candidate.manifest.table:
        return None
    known = space.comparable(brief.experiments, brief.spec.spec_hash, brief.device, source_hash(candidate))
    trials = min(brief.trials, space.size(candidate))
    return TuningRequest(strategy="tpe", trials=trials, seed=brief.seed, prior=tuple(map(space.trial_of, known)))
