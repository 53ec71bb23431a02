"""``model-gateway init``"""


def main(arguments: list[str]) -> None:
    raise NotImplementedError
