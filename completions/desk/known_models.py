"""Which models of a list there are in the catalog, for those who restrict a key to some."""

from collections.abc import Collection

from completions.models import LanguageModel, RoutableAlias


def _known(ids: Collection[str]) -> set[str]:
    found = (table.objects.filter(pk__in=ids).values_list("pk", flat=True) for table in (LanguageModel, RoutableAlias))
    return {model_id for each in found for model_id in each}


KNOWN = [_known]
