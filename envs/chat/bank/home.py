"""Conversions, recipes and facts: what is asked in a kitchen and on the way."""

from envs.chat.bank.draw import Domain, Draw
from envs.chat.request import Request

conversions, recipes, facts = Domain("conversions"), Domain("recipes"), Domain("facts")

UNITS: tuple[tuple[str, str, int], ...] = (
    ("kilometres", "metres", 1000),
    ("kilograms", "grams", 1000),
    ("litres", "millilitres", 1000),
    ("hours", "minutes", 60),
    ("metres", "centimetres", 100),
    ("minutes", "seconds", 60),
    ("days", "hours", 24),
    ("weeks", "days", 7),
)


@conversions.template()
def to_smaller(draw: Draw) -> Request:
    count, (large, small, factor) = draw.number(2, 48), draw.pick(UNITS)
    result = count * factor
    return Request(
        draw.say(
            f"How many {small} are {count} {large}?",
            f"{count} {large} in {small}?",
            f"Convert {count} {large} to {small}.",
        ),
        str(result),
        (f"It is {result} {small}.", f"There are {factor} {small} in one of the {large}."),
    )


@conversions.template()
def to_larger(draw: Draw) -> Request:
    count, (large, small, factor) = draw.number(2, 48), draw.pick(UNITS)
    return Request(
        draw.say(
            f"How many {large} are {count * factor} {small}?",
            f"I have {count * factor} {small}, what is that in {large}?",
        ),
        str(count),
        (f"That is {count} {large}.", f"I divided by {factor}, the number of {small} in each."),
    )


@conversions.template()
def cups(draw: Draw) -> Request:
    count = draw.number(2, 19)
    stuff = draw.pick(("milk", "water", "stock", "cream", "juice", "oil", "wine", "tea"))
    result = count * 240
    return Request(
        draw.say(
            f"An American book says {count} cups of {stuff}. How many millilitres is that?",
            f"{count} US cups of {stuff} in millilitres, at 240 each?",
        ),
        str(result),
        (f"Use {result} millilitres of {stuff}.", "I counted 240 millilitres for each."),
    )


@conversions.template()
def oven(draw: Draw) -> Request:
    celsius = draw.number(100, 250, 5)
    return Request(
        draw.say(
            f"The oven should be at {celsius * 9 // 5 + 32} °F. What is that in Celsius?",
            f"{celsius * 9 // 5 + 32} degrees Fahrenheit for my oven, which setting in °C?",
        ),
        str(celsius),
        (f"Set it to {celsius} °C.", "The oven dial of most European stoves shows that number."),
    )


@conversions.template(heldout=True)
def inches(draw: Draw) -> Request:
    count = draw.number(2, 40) * 5
    return Request(
        f"My tin is {count} inches around. How many centimetres is that, at 2.54 each?",
        f"{count * 254 / 100:g}",
        (
            f"The tin is {count * 254 / 100:g} centimetres around.",
            "A tape measure will confirm it.",
        ),
    )


@conversions.template(heldout=True)
def dozens(draw: Draw) -> Request:
    count, goods = draw.number(3, 30), draw.pick(("eggs", "rolls", "roses", "screws"))
    return Request(
        f"How many {goods} are {count} dozen {goods}?",
        str(count * 12),
        (f"There are {count * 12} {goods}.", "A dozen is twelve of them."),
    )


DISHES: tuple[tuple[str, str, str], ...] = (
    ("pancakes", "Mix 250 g of flour, 500 ml of milk and 2 eggs.", "Fry thin layers of it."),
    ("tomato soup", "Simmer 800 g of tomatoes with an onion for 20 minutes.", "Blend it smooth."),
    ("rice pudding", "Cook 200 g of rice in 1 litre of milk.", "Stir often and add 60 g of sugar."),
    ("apple crumble", "Cover 1 kg of apples with crumbs of butter and flour.",
     "Bake it at 190 °C for 35 minutes."),
    ("hummus", "Blend 400 g of chickpeas with lemon and tahini.", "Add 50 ml of cold water."),
    ("potato salad", "Boil 1 kg of potatoes and slice them warm.", "Add 200 ml of stock."),
    ("lentil stew", "Cook 300 g of lentils with carrots for 25 minutes.", "Finish with vinegar."),
    ("banana bread", "Mash 3 bananas into 250 g of flour and 2 eggs.",
     "Bake the bread at 175 °C for 55 minutes."),
    ("pizza dough", "Knead 500 g of flour with 320 ml of water and yeast.", "Let the dough rest."),
    ("omelette", "Beat 3 eggs with 20 ml of milk.", "Let the omelette set over low heat."),
    ("oat biscuits", "Stir 150 g of oats into 100 g of soft butter and sugar.",
     "Bake the biscuits at 180 °C for 12 minutes."),
    ("vegetable curry", "Fry 500 g of vegetables with curry paste.",
     "Simmer them in 400 ml of coconut milk."),
)  # fmt: skip


@recipes.template()
def how_to_make(draw: Draw) -> Request:
    dish, guests = draw.pick(DISHES), draw.number(2, 12)
    return Request(
        draw.say(
            f"How do I make {dish[0]} for {guests}?",
            f"Give me a simple recipe for {dish[0]}, there are {guests} of us.",
            f"I'd like to cook {dish[0]} tonight for {guests} people. What goes in?",
        ),
        "",
        (*dish[1:], f"Scale it up or down for {guests} people."),
    )


@recipes.template()
def first_time(draw: Draw) -> Request:
    dish, name = draw.pick(DISHES), draw.name()
    return Request(
        draw.say(
            f"{name} has never made {dish[0]}. What should {name} do?",
            f"{name} promised {dish[0]} and has no idea how. Amounts please.",
        ),
        "",
        (*dish[1:], f"It is an easy start for {name}."),
    )


@recipes.template()
def leftover(draw: Draw) -> Request:
    grams = draw.number(100, 900, 50)
    stuff = draw.pick(("rice", "bread", "pasta", "potatoes", "carrots", "spinach", "cheese",
                       "chicken"))  # fmt: skip
    return Request(
        draw.say(
            f"I have {grams} g of {stuff} left over. What can I cook with it, and how hot?",
            f"What becomes of {grams} g of {stuff}? Something from the oven maybe?",
        ),
        "",
        (f"Bake the {stuff} with an egg and some cream.",
         f"Put the {grams} g into a dish and bake it at 200 °C for 25 minutes."),
    )  # fmt: skip


@recipes.template(heldout=True)
def shopping_list(draw: Draw) -> Request:
    dish, guests = draw.pick(DISHES), draw.number(2, 12)
    return Request(
        f"I'm at the market, {guests} guests want {dish[0]}. How much of what do I buy?",
        "",
        (*dish[1:], f"Buy that amount and a little more for {guests} guests."),
    )


@recipes.template(heldout=True)
def too_thick(draw: Draw) -> Request:
    dish, minutes = draw.pick(DISHES), draw.number(5, 40)
    return Request(
        f"I started my {dish[0]} {minutes} minutes ago and it looks wrong. What is the right way?",
        "",
        (*dish[1:], f"After {minutes} minutes you can still correct it."),
    )


COUNTRIES: tuple[tuple[str, str, str, str], ...] = (
    ("Australia", "Canberra", "the Australian dollar", "English"),
    ("Japan", "Tokyo", "the yen", "Japanese"),
    ("Poland", "Warsaw", "the zloty", "Polish"),
    ("Brazil", "Brasilia", "the real", "Portuguese"),
    ("Turkey", "Ankara", "the lira", "Turkish"),
    ("Sweden", "Stockholm", "the krona", "Swedish"),
    ("Hungary", "Budapest", "the forint", "Hungarian"),
    ("Thailand", "Bangkok", "the baht", "Thai"),
    ("Vietnam", "Hanoi", "the dong", "Vietnamese"),
    ("Iceland", "Reykjavik", "the krona", "Icelandic"),
    ("Mexico", "Mexico City", "the peso", "Spanish"),
    ("Egypt", "Cairo", "the pound", "Arabic"),
    ("Romania", "Bucharest", "the leu", "Romanian"),
    ("Denmark", "Copenhagen", "the krone", "Danish"),
    ("Mongolia", "Ulaanbaatar", "the tugrik", "Mongolian"),
    ("Norway", "Oslo", "the krone", "Norwegian"),
)


@facts.template()
def capital(draw: Draw) -> Request:
    country, city, _, _ = draw.pick(COUNTRIES)
    return Request(
        draw.say(
            f"What is the capital of {country}?",
            f"Capital of {country}?",
            f"Which city is the capital of {country}?",
        ),
        city,
        (f"{city} is the capital of {country}.",),
    )


@facts.template()
def currency(draw: Draw) -> Request:
    country, _, money, _ = draw.pick(COUNTRIES)
    return Request(
        draw.say(f"What do people pay with in {country}?", f"Which currency does {country} use?"),
        money.split()[-1],
        (f"They use {money}.", f"It is the currency of {country}."),
    )


@facts.template()
def weekday(draw: Draw) -> Request:
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    start, later = draw.number(0, 6), draw.number(3, 60)
    result = days[(start + later) % 7]
    return Request(
        draw.say(
            f"If today is {days[start]}, which weekday is it in {later} days?",
            f"It's {days[start]}. What day will it be {later} days from now?",
        ),
        result,
        (f"It will be {result}.", f"Whole weeks change nothing, so {later % 7} days count."),
    )


@facts.template()
def departure(draw: Draw) -> Request:
    hour, minute, ride = draw.number(6, 19), draw.number(0, 55, 5), draw.number(10, 100, 5)
    total = hour * 60 + minute + ride
    result = f"{total // 60}:{total % 60:02}"
    return Request(
        draw.say(
            f"My train leaves at {hour}:{minute:02} and takes {ride} minutes. When do I arrive?",
            f"Departure {hour}:{minute:02}, {ride} minutes on the way. Arrival time?",
        ),
        result,
        (f"You arrive at {result}.", f"That is {ride} minutes after the train leaves."),
    )


@facts.template(heldout=True)
def spoken(draw: Draw) -> Request:
    country, _, _, tongue = draw.pick(COUNTRIES)
    return Request(
        f"Which language do most people speak in {country}?",
        tongue,
        (f"Most people speak {tongue}.", f"You will hear it everywhere in {country}."),
    )


@facts.template(heldout=True)
def leap_year(draw: Draw) -> Request:
    year = draw.number(1904, 2096)
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return Request(
        f"How many days does February have in {year}?",
        "29" if leap else "28",
        (f"It has {29 if leap else 28} days.", f"The year {year} is {'' if leap else 'not '}a leap "
         "year."),
    )  # fmt: skip


DOMAINS = (conversions, recipes, facts)
