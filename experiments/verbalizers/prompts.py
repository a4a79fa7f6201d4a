"""Prompts of a binary task, the same for every verbalizer, and the tokens that answer them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from omegaconf import MISSING

from experiments.domains.base import Domain
from experiments.domains.windows import leading_token
from experiments.errors import UserError
from experiments.options import option


@dataclass
class TaskConfig:
    """A binary task: which of two domains is a text from?"""

    classes: list[str] = option(MISSING, "The two domains, in the order of a verbalizer's words.")
    before: str = option("Text: ", "What stands before the text.")
    after: str = option(MISSING, "What stands after the text, up to the answer.")

    def check(self, key: str) -> None:
        """Checks that the task is binary.

        Raises:
            UserError: It does not name two different domains.
        """
        if len(set(self.classes)) != 2 or len(self.classes) != 2:
            raise UserError(f"{key}.classes={list(self.classes)}: must name two different domains")


@dataclass(frozen=True)
class Prompts:
    """A task's prompts without answers; classes alternate, so that every batch holds both.

    Attributes:
        name: Name of the task.
        train: Token ids (N, L) int64 of the prompts that are trained on and sketched.
        train_classes: Class of each, 0 or 1, (N,) int64.
        held_out: Token ids (N', L) of the prompts that gains are measured on.
        held_out_classes: Class of each (N',).
    """

    name: str
    train: torch.Tensor
    train_classes: torch.Tensor
    held_out: torch.Tensor
    held_out_classes: torch.Tensor


def prompts_of(name: str, task: TaskConfig, domains: Sequence[Domain], tokenizer: Any) -> Prompts:
    """Puts a task's texts between what stands before and after them.

    Args:
        name: Name of the task.
        task: The task.
        domains: Domains that hold both classes; a window is a text.
        tokenizer: A transformers tokenizer.

    Returns:
        The prompts, all of one length.

    Raises:
        UserError: A class is no domain.
    """
    by_name = {domain.name: domain for domain in domains}
    for missing in [part for part in task.classes if part not in by_name]:
        raise UserError(
            f"settings.tasks.{name}.classes: there is no domain {missing!r}; there are {', '.join(by_name)}"
        )
    bos = leading_token(tokenizer)
    before, after = (
        torch.tensor(tokenizer(text, add_special_tokens=False)["input_ids"], dtype=torch.int64)
        for text in (task.before, task.after)
    )

    def framed(part: str) -> tuple[torch.Tensor, torch.Tensor]:
        texts = [getattr(by_name[domain], part) for domain in task.classes]
        if bos is not None:
            texts = [windows[:, 1:] for windows in texts]
        windows = torch.stack(texts, dim=1).flatten(0, 1)  # (2 n, W), the classes in turn
        sides = [side.expand(len(windows), -1) for side in (before, after)]
        whole = torch.cat([sides[0], windows, sides[1]], dim=1)
        if bos is not None:
            whole = torch.nn.functional.pad(whole, (1, 0), value=bos)
        return whole, torch.arange(len(whole)) % 2

    return Prompts(name, *framed("train"), *framed("held_out"))


def answer_tokens(verbalizers: Mapping[str, Sequence[str]], tokenizer: Any) -> dict[str, torch.Tensor]:
    """Returns the token id of each word of each verbalizer, (2,) int64.

    Args:
        verbalizers: Two words each, as they follow the prompt: mostly with a space in front.
        tokenizer: A transformers tokenizer.

    Raises:
        UserError: A verbalizer has not two different words, or a word is not a single token.
    """
    found = {}
    for name, words in verbalizers.items():
        if len(words) != 2 or words[0] == words[1]:
            raise UserError(f"settings.verbalizers.{name}={list(words)}: must be two different words")
        ids = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in words]
        for word, tokens in zip(words, ids, strict=True):
            if len(tokens) != 1:
                raise UserError(
                    f"settings.verbalizers.{name}: {word!r} is {len(tokens)} tokens of this tokenizer; "
                    "choose a word that is one token"
                )
        found[name] = torch.tensor(ids, dtype=torch.int64).flatten()
        if found[name][0] == found[name][1]:
            raise UserError(f"settings.verbalizers.{name}={list(words)}: both are the same token")
    return found
