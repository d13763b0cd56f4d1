"""The two ways in which gradveil says no: the input is bad, or the answer is no."""


class BadInput(ValueError):
    """What the user gave cannot work; the message is one sentence naming key, value and rule (exit code 2)."""


class AnswerIsNo(Exception):
    """The question was sound and the answer is no: a diverged run, a digest that differs (exit code 1)."""
