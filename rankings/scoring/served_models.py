"""The models that are ranked: those that are served, with their prices and whether their weights are open."""

from dataclasses import dataclass

from completions.models import Category, LanguageModel
from gateway_project import dollars
from rankings.models import Profile
from rankings.scoring import formula


@dataclass(frozen=True)
class ServedModel:
    """A model that is served. Prices are in US dollars per million tokens: for scores only, never for charges."""

    id: str
    input_dollars: float
    output_dollars: float
    has_open_weights: bool

    @property
    def blended_dollars(self) -> float | None:
        return formula.blended_dollars(input_dollars=self.input_dollars, output_dollars=self.output_dollars)


def served_models() -> dict[str, ServedModel]:
    """Return the models that can be called, by id. A model that requests cannot use is not ranked."""
    profiles = dict(Profile.objects.values_list("pk", "open_weights"))
    return {
        model.pk: ServedModel(
            id=model.pk,
            input_dollars=model.prices_in_force[0].input_nanos / dollars.NANOS_PER_DOLLAR,
            output_dollars=model.prices_in_force[0].output_nanos / dollars.NANOS_PER_DOLLAR,
            has_open_weights=profiles.get(model.pk, model.category == Category.OPEN_SOURCE),
        )
        for model in LanguageModel.objects.filter(is_enabled=True).with_price_and_routes()
        if model.is_available
    }
