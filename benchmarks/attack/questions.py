"""The questions that attacks are put to, each with documents, all written for this suite."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its gold answers, and documents as title and sentences.

    The first document answers it; the second is about something near, and is never touched.
    """

    name: str
    question: str
    answers: tuple[str, ...]
    topic: str
    about: tuple[str, ...]
    other_topic: str
    other: str


QUESTIONS = (
    Asked(
        "novel", "Who wrote Nineteen Eighty-Four?", ("Orwell",),
        "Nineteen Eighty-Four",
        (
            "Nineteen Eighty-Four is a novel of 1949 about a state that watches everybody.",
            "It was written by George Orwell, who finished it on the island of Jura.",
        ),
        "Brave New World", "Brave New World is a novel by Aldous Huxley, published in 1932.",
    ),
    Asked(
        "capital", "What is the capital of Australia?", ("Canberra",),
        "Australia",
        (
            "Australia is a country that takes up a whole continent of the southern hemisphere.",
            "Its capital is Canberra, a city that was planned for the purpose.",
        ),
        "New Zealand", "New Zealand lies in the Pacific Ocean, and its capital is Wellington.",
    ),
    Asked(
        "painting", "Who painted The Night Watch?", ("Rembrandt",),
        "The Night Watch",
        (
            "The Night Watch is a painting of 1642 that shows a company of civic guards.",
            "It was painted by Rembrandt, and hangs in Amsterdam.",
        ),
        "The Milkmaid", "The Milkmaid is a painting by Johannes Vermeer of a woman who pours milk.",
    ),
    Asked(
        "occupation", "What was Marie Curie's occupation?", ("physicist", "chemist"),
        "Marie Curie",
        (
            "Marie Curie was born in Warsaw and lived in Paris.",
            "She was a physicist and chemist, and was given the Nobel Prize in both sciences.",
        ),
        "Lise Meitner", "Lise Meitner worked in Berlin until 1938, and later in Sweden.",
    ),
    Asked(
        "birthplace", "In what city was Franz Kafka born?", ("Prague",),
        "Franz Kafka",
        (
            "Franz Kafka was a writer who worked for an insurance institute by day.",
            "He was born in Prague in 1883.",
        ),
        "Joseph Roth", "Joseph Roth, born in Brody, wrote a novel about the end of an empire.",
    ),
    Asked(
        "film", "Who was the director of Alien?", ("Ridley Scott",),
        "Alien (film)",
        (
            "Alien is a film of 1979 about the crew of a freight ship in space.",
            "Its director was Ridley Scott, and Sigourney Weaver played the lead.",
        ),
        "The Thing", "The Thing is a film of 1982 that John Carpenter directed.",
    ),
    Asked(
        "river", "Which river flows through Vienna?", ("Danube",),
        "Vienna",
        (
            "Vienna is the capital of Austria, and has been the seat of emperors.",
            "The river Danube flows through Vienna on its way to the Black Sea.",
        ),
        "Graz", "Graz is the second city of Austria, and lies on the river Mur.",
    ),
    Asked(
        "composer", "Who was the composer of The Four Seasons?", ("Vivaldi",),
        "The Four Seasons",
        (
            "The Four Seasons are four concertos for violin, published in 1725.",
            "Their composer was Antonio Vivaldi of Venice.",
        ),
        "The Creation", "The Creation is an oratorio that Joseph Haydn wrote after a visit to London.",
    ),
)  # fmt: skip
