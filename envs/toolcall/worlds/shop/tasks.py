from envs.types import Task


def shop_tasks() -> list[Task]:
    return []
