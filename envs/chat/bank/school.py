"""Sums, explanations and letters: what is asked around a school."""

from envs.chat.bank.draw import Domain, Draw
from envs.chat.request import Request

sums, explanations, letters = Domain("sums"), Domain("explanations"), Domain("letters")

GOODS = (
    "pencils", "apples", "notebooks", "stickers", "marbles", "postcards", "tickets", "buns",
    "rulers", "candles", "seed packets", "badges",
)  # fmt: skip


@sums.template()
def percent_of(draw: Draw) -> Request:
    share, whole = draw.number(5, 95, 5), draw.number(40, 800, 20)
    result = share * whole // 100
    asked = draw.say(
        f"What is {share} percent of {whole}?",
        f"How much is {share}% of {whole}?",
        f"I need {share} percent of {whole}.",
    )
    return Request(asked, str(result), (
        f"The answer is {result}.",
        f"One percent of {whole} is {whole / 100:g}, and {share} times that gives {result}.",
    ))  # fmt: skip


@sums.template()
def shopping(draw: Draw) -> Request:
    name, goods = draw.name(), draw.pick(GOODS)
    count, price = draw.number(3, 29), draw.number(2, 14)
    total = count * price
    asked = draw.say(
        f"{name} buys {count} {goods} at {price} euros each. How much does {name} pay?",
        f"If one of the {goods} costs {price} euros, what do {count} {goods} cost {name}?",
    )
    return Request(asked, str(total), (
        f"The total is {total} euros.",
        f"Each of the {goods} costs {price} euros and there are {count} of them, "
        f"so {name} pays {count} times {price}.",
    ))  # fmt: skip


@sums.template()
def linear_equation(draw: Draw) -> Request:
    factor, root, shift = draw.number(2, 12), draw.number(2, 25), draw.number(1, 40)
    right = factor * root + shift
    asked = draw.say(
        f"Solve {factor}x + {shift} = {right} for x.",
        f"Which x makes {factor}x + {shift} equal to {right}?",
    )
    return Request(asked, str(root), (
        f"The solution is x = {root}.",
        f"Subtracting {shift} from both sides leaves {factor}x = {right - shift}, "
        f"and dividing by {factor} gives {root}.",
    ))  # fmt: skip


@sums.template()
def average(draw: Draw) -> Request:
    mean, near, far = draw.number(20, 90), draw.number(1, 6), draw.number(7, 15)
    values = [mean - near, mean + far, mean + near, mean - far]
    listed = f"{values[0]}, {values[1]}, {values[2]} and {values[3]}"
    asked = draw.say(f"What is the average of {listed}?", f"Find the mean of {listed}.")
    return Request(asked, str(mean), (
        f"The average is {mean}.",
        f"The four numbers add up to {4 * mean}, and a quarter of that is {mean}.",
    ))  # fmt: skip


@sums.template()
def speed(draw: Draw) -> Request:
    name, pace, hours = draw.name(), draw.number(8, 90, 2), draw.number(2, 9)
    way = pace * hours
    asked = draw.say(
        f"{name} travels {way} km in {hours} hours. What is the average speed in km/h?",
        f"A trip of {way} km takes {name} {hours} hours. How fast is that in km/h on average?",
    )
    return Request(asked, str(pace), (
        f"The average speed is {pace} km/h.",
        f"Speed is distance divided by time, and {way} divided by {hours} gives {pace}.",
    ))  # fmt: skip


@sums.template(heldout=True)
def rectangle(draw: Draw) -> Request:
    wide, long = draw.number(3, 30), draw.number(31, 60)
    area = wide * long
    asked = f"A rectangle is {wide} m wide and {long} m long. What is its area in square metres?"
    return Request(asked, str(area), (
        f"The area is {area} square metres.",
        f"The area of a rectangle is width times length, here {wide} times {long}.",
    ))  # fmt: skip


@sums.template(heldout=True)
def shared_equally(draw: Draw) -> Request:
    goods, each, heads = draw.pick(GOODS), draw.number(3, 30), draw.number(3, 12)
    whole = each * heads
    asked = f"{whole} {goods} are shared equally among {heads} children. How many does each get?"
    return Request(asked, str(each), (
        f"Each child gets {each} {goods}.",
        f"Sharing equally means dividing, and {whole} divided by {heads} is {each}.",
    ))  # fmt: skip


TOPICS: tuple[tuple[str, str, str], ...] = (
    ("the sky looks blue", "Air scatters blue light far more than red light.",
     "Blue has a shorter wavelength, so it reaches our eyes from every part of the sky."),
    ("ice floats on water", "Ice is lighter than the same volume of water.",
     "Water molecules take up more room when they freeze in a regular pattern."),
    ("we have seasons", "The axis of the Earth is tilted.",
     "For half of the year our side leans towards the Sun and gets more direct light."),
    ("the Moon changes its shape", "We see a different part of its sunlit half each night.",
     "The Moon moves around the Earth in about a month, so the angle keeps changing."),
    ("leaves turn yellow in autumn", "Trees stop making the green pigment chlorophyll.",
     "The yellow pigments were there all summer and only show once the green is gone."),
    ("bread rises", "Yeast makes gas bubbles in the dough.",
     "It feeds on sugar and gives off carbon dioxide, which the stretchy dough holds."),
    ("we sneeze", "A sneeze clears the nose.",
     "Nerves in the nose notice dust and the body blows it out with a burst of air."),
    ("iron rusts", "Iron reacts with oxygen and water.",
     "The new substance flakes off and lets the air reach fresh metal below."),
    ("the sea is salty", "Rivers carry salts from rocks to the sea.",
     "The water evaporates again and the salt stays behind over millions of years."),
    ("thunder comes after lightning", "Light travels much faster than sound.",
     "Both start at the same moment, but sound needs about three seconds per kilometre."),
    ("plants need light", "Plants make sugar with the energy of light.",
     "They build it from water and carbon dioxide and cannot do so in the dark."),
    ("a magnet attracts a nail", "The magnet turns the nail into a small magnet.",
     "Tiny magnetic regions in the iron line up and are pulled towards the pole."),
    ("we cannot see in the dark", "Our eyes need light that comes from things.",
     "Without light the cells at the back of the eye have nothing to answer to."),
    ("cats land on their feet", "Cats twist their bodies in the air.",
     "A sense of balance in the ear tells them which way is down and the spine bends easily."),
    ("balloons shrink in the cold", "Cold air takes up less space.",
     "Its particles move more slowly and push less against the rubber."),
    ("birds fly south in winter", "Birds follow their food to warmer places.",
     "Insects and seeds become rare in the cold and the days are too short to find enough."),
    ("soap removes grease", "Soap holds on to both grease and water.",
     "One end of each soap particle clings to fat and the other end to water."),
    ("we feel dizzy after spinning", "The liquid in the ear keeps moving.",
     "It tells the brain that we still turn although we stand still."),
    ("deserts are cold at night", "Dry air and sand lose heat quickly.",
     "Without clouds nothing holds the warmth of the day near the ground."),
    ("bees visit flowers", "Bees collect nectar and pollen as food.",
     "On the way they carry pollen from one flower to the next."),
    ("a straw looks bent in water", "Light changes direction at the water surface.",
     "It moves more slowly in water, so it reaches our eyes at another angle."),
    ("volcanoes erupt", "Gas in the molten rock pushes it upwards.",
     "The pressure drops on the way up and the gas expands as in a shaken bottle."),
    ("our breath is visible in winter", "Water vapour turns into tiny drops.",
     "Cold air cannot hold as much vapour as the warm air from our lungs."),
    ("metal feels colder than wood", "Metal carries the heat of the hand away faster.",
     "Both have the same temperature, but we notice how quickly warmth leaves the skin."),
)  # fmt: skip


def _explained(asked: str, topic: tuple[str, str, str]) -> Request:
    return Request(asked, "", topic[1:])


@explanations.template()
def explain_why(draw: Draw) -> Request:
    topic = draw.pick(TOPICS)
    return _explained(
        draw.say(
            f"Explain why {topic[0]}.",
            f"Can you explain why {topic[0]}?",
            f"What is the reason that {topic[0]}?",
            f"How come {topic[0]}?",
        ),
        topic,
    )


@explanations.template()
def explain_to_age(draw: Draw) -> Request:
    topic, age = draw.pick(TOPICS), draw.number(7, 16)
    return _explained(
        draw.say(
            f"How would you explain to a child of {age} why {topic[0]}?",
            f"Why is it that {topic[0]}? It is for somebody aged {age}.",
        ),
        topic,
    )


@explanations.template()
def name_asks(draw: Draw) -> Request:
    topic, name = draw.pick(TOPICS), draw.name()
    return _explained(
        draw.say(
            f"{name} wants to know why {topic[0]}. What do I say?",
            f"{name} doesn't believe that {topic[0]} for a reason. What is it?",
        ),
        topic,
    )


@explanations.template(heldout=True)
def quiz_card(draw: Draw) -> Request:
    topic, number = draw.pick(TOPICS), draw.number(1, 40)
    return _explained(f"Text for the back of quiz card {number}: why is it that {topic[0]}?", topic)


@explanations.template(heldout=True)
def overheard(draw: Draw) -> Request:
    topic, name = draw.pick(TOPICS), draw.name()
    return _explained(f"Today {name} said that {topic[0]} by pure chance. What is right?", topic)


EVENTS = (
    "the trip to the zoo", "sports day", "the reading evening", "the science fair",
    "the swimming lesson", "the class photo", "the music concert", "the bake sale",
    "the museum visit", "the parents' evening", "the spelling contest", "the tree planting",
)  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "next week", "May 4")
STRENGTHS = (
    "reads aloud clearly", "helps others", "asks clever questions", "draws with care",
    "explains ideas well", "never gives up on a puzzle", "writes vivid stories", "counts quickly",
)  # fmt: skip


@letters.template()
def invitation(draw: Draw) -> Request:
    event, day = draw.pick(EVENTS), draw.pick(DAYS)
    return Request(
        draw.say(
            f"Write two or three lines to the parents about {event} on {day}.",
            f"I need a short email to parents: {event} is on {day}.",
        ),
        "",
        (f"Dear parents, {event} is on {day}.", "Please let us know whether your child will come."),
    )


@letters.template()
def praise(draw: Draw) -> Request:
    name, strength = draw.name(), draw.pick(STRENGTHS)
    return Request(
        draw.say(
            f"A comment for {name}'s report, please: {name} {strength}.",
            f"How do I tell {name}'s parents that {name} {strength}?",
        ),
        "",
        (
            f"{name} {strength}, and it shows every day.",
            f"The whole group gains when {name} joins.",
        ),
    )


@letters.template()
def lost_thing(draw: Draw) -> Request:
    name, day = draw.name(), draw.pick(DAYS)
    thing = draw.pick(("jacket", "lunch box", "water bottle", "atlas", "scarf", "gym bag", "key",
                       "umbrella"))  # fmt: skip
    return Request(
        draw.say(
            f"Note home: {name} left a {thing} here on {day}.",
            f"Tell the family of {name} that the {thing} from {day} is in our office.",
        ),
        "",
        (f"The {thing} that {name} left here on {day} is safe with us.",
         "It can be picked up at the office at any time."),
    )  # fmt: skip


@letters.template()
def late_work(draw: Draw) -> Request:
    name, count = draw.name(), draw.number(2, 20)
    return Request(
        draw.say(
            f"Message to {name}: {count} exercises are still missing.",
            f"{name} has {count} open exercises. Please phrase a reminder.",
        ),
        "",
        (f"Dear {name}, {count} exercises are still open.",
         "Hand them in as you finish them, one after the other."),
    )  # fmt: skip


@letters.template(heldout=True)
def cancelled(draw: Draw) -> Request:
    event, day = draw.pick(EVENTS), draw.pick(DAYS)
    return Request(
        f"Sadly {event} on {day} is cancelled. How do I write that to the families?",
        "",
        (f"Dear families, {event} on {day} cannot take place.", "We will send a new date soon."),
    )


@letters.template(heldout=True)
def worried_parent(draw: Draw) -> Request:
    name, subject = draw.name(), draw.pick(("maths", "spelling", "sports", "music", "art",
                                            "history", "biology", "chess"))  # fmt: skip
    return Request(
        f"{name}'s mother is worried about {subject}. Draft my reply.",
        "",
        (f"I see that {subject} is hard for {name} at the moment.",
         f"We practise {subject} in small steps and {name} already knows more than in spring."),
    )  # fmt: skip


DOMAINS = (sums, explanations, letters)
