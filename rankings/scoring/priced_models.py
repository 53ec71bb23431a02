"""The models that are ranked: those that are offered at a price, callable now or not."""

from dataclasses import dataclass

from completions.models import Category, LanguageModel
from gateway_project.text import dollars
from rankings.models import Profile
from rankings.scoring import formula


@dataclass(frozen=True)
class PricedModel:
    """A model that has a price. Prices are in US dollars per million tokens: for scores only, never for charges."""

    id: str
    input_dollars: float
    output_dollars: float
    has_open_weights: bool

    @property
    def blended_dollars(self) -> float | None:
        return formula.blended_dollars(input_dollars=self.input_dollars, output_dollars=self.output_dollars)


def priced_models() -> dict[str, PricedModel]:
    """Return every enabled model with a price in force, by id; callable or not, as a rank says how good a model is."""
    profiles = dict(Profile.objects.values_list("pk", "open_weights"))
    return {
        model.pk: PricedModel(
            id=model.pk,
            input_dollars=model.prices_in_force[0].input_nanos / dollars.NANOS_PER_DOLLAR,
            output_dollars=model.prices_in_force[0].output_nanos / dollars.NANOS_PER_DOLLAR,
            has_open_weights=profiles.get(model.pk, model.category == Category.OPEN_SOURCE),
        )
        for model in LanguageModel.objects.of_chat().filter(is_enabled=True).with_price_and_routes()
        if model.prices_in_force
    }
