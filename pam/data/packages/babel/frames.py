"""Sentences with slots for fields, in German and English."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from pam.data.packages.babel.draw import Draw
from pam.data.packages.babel.fields import FIELDS
from pam.data.packages.babel.words import Side, Word, Words, under

WRITTEN = """
{event} beginnt/1 am/2 {date} um/3 {time} Uhr
{event} starts/1 on/2 {date} at/3 {time}

am/1 {date} beginnt/2 {event}
on/1 {date} , {event} starts/2

{event} wurde/1 am/2 {full} eröffnet/3
{event} was/1 opened/3 on/2 {full}

{event} dauert/1 {duration}
{event} lasts/1 {duration}

{event} hat/1? {past} begonnen/1
{event} started/1 {past}

{event} endet/1 {future}
{event} ends/1 {future}

{person} reist/1 am/2 {day} nach/3 {country}
{person} travels/1 to/3 {country} on/2 {day}

{person} ist/1? {past} nach/2 {country} gereist/1
{person} traveled/1 to/2 {country} {past}

{person} kam/1 im/2 {month} aus/3 {country} zurück/4
{person} came/1 back/4 from/3 {country} in/2 {month}

{person} hat/1? {duration} lang/2 {language} gelernt/1
{person} learned/1 {language} for/2 {duration}

{person} spricht/1 {language} und/2 {language.2}
{person} speaks/1 {language} and/2 {language.2}

in/1 {country} leben/2 {millions} Menschen/3
{millions} people/3 live/2 in/1 {country}

das/1 Paket/2 aus/3 {country} wiegt/4 {mass}
the/1 package/2 from/3 {country} weighs/4 {mass}

das/1 Paket/2 aus/3 {country} kostet/4 {price}
the/1 package/2 from/3 {country} costs/4 {price}

{person} hat/1? am/2 {day} {price} bezahlt/1
{person} paid/1 {price} on/2 {day}

{person} hat/1? am/2 {full} {amount} gespart/1
{person} saved/1 {amount} on/2 {full}

die/1 Straße/2 nach/3 {country} ist/4 {length} lang/5
the/1 road/2 to/3 {country} is/4 {length} long/5

der/1 Zug/2 nach/3 {country} fährt/4 mit/5 {speed}
the/1 train/2 to/3 {country} runs/4 at/5 {speed}

am/1 {monthday} waren/2 es/3 {temperature} in/4 {country}
it/3 was/2 {temperature} in/4 {country} on/1 {monthday}

der/1 Preis/2 ist/3 seit/4 {month} um/5 {percent} gestiegen/6
the/1 price/2 has/3 risen/6 by/5 {percent} since/4 {month}

wenn/1 {event} am/2 {day} beginnt/3 ,/4 kommt/5 {person} um/6 {time} Uhr
when/1 {event} starts/3 on/2 {day} ,/4 {person} comes/5 at/6 {time}

{person} kann/1 am/2 {date} nicht/1? kommen/3
{person} cannot/1 come/3 on/2 {date}

{person} fragt/1 , ob/2 {event} um/3 {time} Uhr endet/4
{person} asks/1 whether/2 {event} ends/4 at/3 {time}

im/1 {month} kostete/2 das/3 Haus/4 {amount}
in/1 {month} , the/3 house/4 cost/2 {amount}

der/1 Garten/2 in/3 {country} hat/4 {area}
the/1 garden/2 in/3 {country} has/4 {area}

{language} wird/1 in/2 {country} von/3 {millions} Menschen/4 gesprochen/5
{language} is/1 spoken/5 by/3 {millions} people/4 in/2 {country}

{person} will/1 {future} {language} lernen/2
{person} wants/1 to/1? learn/2 {language} {future}

vom/1 {monthday} bis/2 zum/2? {monthday.2} ist/3 {person} in/4 {country}
{person} is/3 in/4 {country} from/1 {monthday} to/2 {monthday.2}
"""
"""German above English.

`word/1` has the origin 1: words of that origin in both languages are partners. `word/1?` may be a
partner, but need not. `{name}` is one of `FIELDS`, and `{name.2}` another of that kind. A full stop
ends each sentence, and a capital begins it.
"""

_PART = re.compile(
    r"(?P<text>[^/{}]+)(/(?P<origin>\d+)(?P<unsure>\??))?|\{(?P<slot>(?P<field>[a-z]+)(\.\d+)?)\}"
)


class Phrase(NamedTuple):
    """A sentence in both languages."""

    german: Side
    english: Side


@dataclass(frozen=True)
class Frame:
    """A sentence in both languages, with slots."""

    german: tuple[re.Match[str], ...]
    english: tuple[re.Match[str], ...]

    @classmethod
    def of(cls, written: str) -> Frame:
        """Reads two lines.

        Raises:
            ValueError: they are not written as `WRITTEN` says.
        """
        parts = [[_PART.fullmatch(part) for part in line.split()] for line in written.splitlines()]
        german, english = (tuple(filter(None, own)) for own in parts)
        slots = [sorted(part["slot"] for part in own if part["slot"]) for own in (german, english)]
        if slots[0] != slots[1] or None in parts[0] + parts[1]:
            raise ValueError(f"not a frame: {written!r}")
        return cls(german, english)

    def filled(self, draw: Draw) -> Phrase:
        """The sentence with a value in each slot."""
        values = {part["slot"]: FIELDS[part["field"]](draw) for part in self.german if part["slot"]}
        german, english = (
            _sentence(parts, {slot: under(slot, both[side]) for slot, both in values.items()})
            for side, parts in enumerate((self.german, self.english))
        )
        return Phrase(german, english)


def _sentence(parts: tuple[re.Match[str], ...], values: dict[str, Words]) -> Side:
    words: list[Word] = []
    for part in parts:
        if part["slot"]:
            words += values[part["slot"]]
        else:
            words.append(Word(part["text"], part["origin"], not part["unsure"]))
    first = words[0].text
    words[0] = words[0]._replace(text=first[0].upper() + first[1:])
    return Side((*words, Word(".", "end")))


FRAMES = tuple(Frame.of(written) for written in WRITTEN.strip().split("\n\n"))
