"""Questions asked in German, French and Spanish, with kept answers in the same language."""

from envs.chat.bank.draw import Domain, Draw
from envs.chat.request import Request

german, french, spanish = Domain("german"), Domain("french"), Domain("spanish")

PLANTS: tuple[tuple[str, str], ...] = (
    ("Tomaten", "Sie mögen es warm und sonnig und sie brauchen viel Wasser."),
    ("Karotten", "Der Boden muss locker sein, und man sät sie direkt in das Beet."),
    ("Rosen", "Sie stehen am besten in der Sonne und nicht zu eng."),
    ("Kürbisse", "Sie brauchen viel Platz und eine gute Erde mit Kompost."),
    ("Erdbeeren", "Man pflanzt sie im August, und sie tragen dann im Juni."),
    ("Bohnen", "Sie vertragen keinen Frost, und man sät sie erst im Mai."),
    ("Tulpen", "Die Zwiebeln kommen im Herbst in die Erde und nicht zu flach."),
    ("Gurken", "Es darf nicht zu kalt sein, und die Erde bleibt am besten feucht."),
    ("Kartoffeln", "Man legt sie im April in die Erde und häuft sie dann an."),
    ("Salat", "Er wächst schnell, und man kann ihn von März bis August säen."),
    ("Zwiebeln", "Sie brauchen wenig Wasser und einen Platz in der Sonne."),
    ("Radieschen", "Sie sind nach vier Wochen reif und brauchen wenig Platz."),
)


@german.template()
def pflanzen(draw: Draw) -> Request:
    plant, rows = draw.pick(PLANTS), draw.number(2, 20)
    return Request(
        draw.say(
            f"wie pflege ich {plant[0]}? Ich habe {rows} Reihen davon.",
            f"was muss ich bei {plant[0]} beachten, wenn ich {rows} Reihen anlegen will?",
            f"worauf kommt es bei {plant[0]} an? Es geht um {rows} Reihen.",
        ),
        "",
        (plant[1], f"Bei {rows} Reihen {plant[0]} ist das gut zu schaffen."),
    )


@german.template()
def rechnen(draw: Draw) -> Request:
    count, price = draw.number(3, 30), draw.number(2, 15)
    total = count * price
    return Request(
        draw.say(
            f"was kosten {count} Töpfe, wenn einer {price} Euro kostet?",
            f"ich kaufe {count} Töpfe zu je {price} Euro. Wie viel zahle ich?",
        ),
        str(total),
        (
            f"Das sind {total} Euro.",
            f"Man nimmt die {count} Töpfe mal {price} und ist bei {total}.",
        ),
    )


@german.template()
def nachbar(draw: Draw) -> Request:
    name, plant = draw.name(), draw.pick(PLANTS)
    return Request(
        draw.say(
            f"schreib bitte eine kurze Nachricht an {name}: ich habe zu viele {plant[0]}.",
            f"wie biete ich {name} meine übrigen {plant[0]} an?",
        ),
        "",
        (f"Liebe Grüße an {name}, ich habe noch {plant[0]} und gebe sie gern ab.",
         "Sie stehen am Zaun, und du kannst sie jederzeit holen."),
    )  # fmt: skip


@german.template(heldout=True)
def wetter(draw: Draw) -> Request:
    plant, days = draw.pick(PLANTS), draw.number(2, 14)
    return Request(
        f"es soll {days} Tage regnen, schadet das meinen {plant[0]}?",
        "",
        (f"Bei {days} Tagen Regen ist es gut, wenn das Wasser von den {plant[0]} abfließen kann.",
         plant[1]),
    )  # fmt: skip


PASTRIES: tuple[tuple[str, str], ...] = (
    ("une tarte aux pommes", "Il faut une pâte, six pommes et un peu de sucre."),
    ("des crêpes", "On mélange la farine avec les œufs et le lait."),
    ("une brioche", "Il faut du beurre, des œufs et une longue pause pour la pâte."),
    ("un clafoutis", "On verse la pâte sur les cerises dans un plat beurré."),
    ("des madeleines", "La pâte se repose au froid avant la cuisson."),
    ("une quiche", "On bat les œufs avec la crème et on verse le tout sur la pâte."),
    ("des sablés", "On travaille le beurre avec le sucre et la farine."),
    ("un gâteau au yaourt", "Le pot de yaourt est la mesure pour la farine et le sucre."),
    ("une mousse au chocolat", "On fait fondre le chocolat et on ajoute les blancs en neige."),
    ("des gaufres", "La pâte est une pâte à crêpes avec un peu de levure."),
    ("un pain de campagne", "La pâte de farine, d'eau et de levain se repose une nuit."),
    ("des meringues", "On bat les blancs avec le sucre et on les sèche au four."),
)


@french.template()
def recette(draw: Draw) -> Request:
    pastry, guests = draw.pick(PASTRIES), draw.number(2, 14)
    return Request(
        draw.say(
            f"comment faire {pastry[0]} pour {guests} personnes ?",
            f"je voudrais préparer {pastry[0]}, nous sommes {guests}. Comment faire ?",
            f"quelle est la bonne façon de faire {pastry[0]} pour {guests} ?",
        ),
        "",
        (pastry[1], f"Pour {guests} personnes, on adapte les quantités et le temps au four."),
    )


@french.template()
def prix(draw: Draw) -> Request:
    count, price = draw.number(3, 40), draw.number(2, 9)
    total = count * price
    return Request(
        draw.say(
            f"combien coûtent {count} pains à {price} euros la pièce ?",
            f"je vends {count} pains à {price} euros. Combien cela fait-il ?",
        ),
        str(total),
        (f"Le total est de {total} euros.", f"On multiplie les {count} pains par le prix, {price} "
         "euros."),
    )  # fmt: skip


@french.template()
def commande(draw: Draw) -> Request:
    name, pastry = draw.name(), draw.pick(PASTRIES)
    return Request(
        draw.say(
            f"écris un petit mot à {name} : sa commande est prête, c'est {pastry[0]}.",
            f"comment dire à {name} que sa commande, {pastry[0]}, est prête ?",
        ),
        "",
        (f"Bonjour {name}, la commande est prête, avec {pastry[0]} dans une boîte.",
         "On la garde au frais pour vous jusqu'à ce soir."),
    )  # fmt: skip


@french.template(heldout=True)
def raté(draw: Draw) -> Request:
    pastry, minutes = draw.pick(PASTRIES), draw.number(10, 60)
    return Request(
        f"j'ai raté {pastry[0]} après {minutes} minutes au four. Que faire la prochaine fois ?",
        "",
        (f"Il ne faut pas dépasser le temps, et {minutes} minutes dans un four trop chaud sont de "
         "trop.", pastry[1]),
    )  # fmt: skip


CITIES: tuple[tuple[str, str], ...] = (
    ("Sevilla", "La catedral y los jardines del alcázar son lo más conocido."),
    ("Lima", "El centro y los acantilados sobre el mar son muy bonitos."),
    ("Bilbao", "El museo junto a la ría es lo que todos quieren ver."),
    ("Quito", "El centro es muy antiguo y está en la montaña."),
    ("Granada", "La Alhambra es un palacio que está sobre la ciudad."),
    ("Bogotá", "El museo del oro y el barrio de la Candelaria son para ver con calma."),
    ("Valencia", "La playa y el mercado central están cerca del centro."),
    ("Montevideo", "La rambla junto al río es larga y perfecta para pasear."),
    ("Toledo", "Es una ciudad de piedra con calles que suben y bajan."),
    ("Cusco", "Es la puerta de los valles y está a gran altura."),
    ("Salamanca", "La plaza mayor y la universidad son de piedra dorada."),
    ("Santiago", "Es el final del camino y la catedral es enorme."),
)


@spanish.template()
def visita(draw: Draw) -> Request:
    city, days = draw.pick(CITIES), draw.number(2, 9)
    return Request(
        draw.say(
            f"¿qué puedo ver en {city[0]} en {days} días?",
            f"voy a {city[0]} {days} días, ¿qué me recomiendas?",
            f"tengo {days} días para {city[0]}, ¿por dónde empiezo?",
        ),
        "",
        (city[1], f"En {days} días hay tiempo para eso y para comer bien en {city[0]}."),
    )


@spanish.template()
def billetes(draw: Draw) -> Request:
    count, price = draw.number(2, 20), draw.number(3, 60)
    total = count * price
    return Request(
        draw.say(
            f"¿cuánto cuestan {count} billetes a {price} euros?",
            f"somos {count} y cada billete cuesta {price} euros. ¿Cuánto pagamos?",
        ),
        str(total),
        (f"El total es de {total} euros.", f"Son {count} billetes por el precio de {price} euros."),
    )


@spanish.template()
def hotel(draw: Draw) -> Request:
    city, nights = draw.pick(CITIES), draw.number(2, 12)
    return Request(
        draw.say(
            f"escribe un mensaje al hotel de {city[0]}: quiero {nights} noches más.",
            f"¿cómo pido al hotel en {city[0]} que me guarden {nights} noches?",
        ),
        "",
        (f"Buenos días, me gustaría quedarme {nights} noches más en el hotel de {city[0]}.",
         "Les agradezco que me digan si es posible y a qué precio."),
    )  # fmt: skip


@spanish.template(heldout=True)
def lluvia(draw: Draw) -> Request:
    city, hours = draw.pick(CITIES), draw.number(2, 12)
    return Request(
        f"llueve en {city[0]} desde hace {hours} horas, ¿qué hago?",
        "",
        (f"Con lluvia en {city[0]} lo mejor es un museo o un café.", city[1]),
    )


DOMAINS = (german, french, spanish)
