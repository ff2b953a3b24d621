"""A chat model's own template: prompts to token ids, for the engine and for counting."""

from jinja2 import TemplateError
from transformers import AutoTokenizer

from crag_core.errors import InvalidQuestion, SettingsError
from crag_core.types import Prompt
from deployments.backends.model_folder import model_folder


class ChatTemplate:
    """Renders prompts as the model was trained to read them.

    Text that looks like one of the model's special tokens is made ordinary text first: evidence and
    questions are data, and must not be able to end a turn or to open one.
    """

    def __init__(self, model: str, revision: str | None = None) -> None:
        """Loads the tokenizer of a folder or hub name; raises SettingsError when there is none."""
        folder = model_folder(model, revision)
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise SettingsError(f"{folder} holds no tokenizer that can be loaded: {error}") from error
        if not self._tokenizer.chat_template:
            raise SettingsError(f"{folder} has no chat template: name a chat model")
        self._special = tuple(
            sorted(
                {token.content for token in self._tokenizer.added_tokens_decoder.values()},
                key=len,
                reverse=True,
            )
        )

    def encode(self, prompt: Prompt) -> list[int]:
        """Token ids of the prompt, ready for the assistant's turn."""
        messages = [
            {"role": message.role, "content": self._plain(message.content)}
            for message in prompt.messages
        ]
        try:
            text = self._tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True
            )
        except TemplateError as error:
            raise InvalidQuestion(
                f"the model's chat template does not accept this order of turns: {error}"
            ) from error
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def count(self, prompt: Prompt) -> int:
        """Tokens of the prompt, its template included."""
        return len(self.encode(prompt))

    def _plain(self, text: str) -> str:
        for token in self._special:
            if token.strip() and token in text:
                text = text.replace(token, f"{token[0]} {token[1:]}")
        return text
