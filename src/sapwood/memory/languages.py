"""Which language a text is in, as far as its stop words and letters tell, and the stems of its words.

Laws: the same text always gives the same answer; English needs nothing beyond the standard library, and another
language's rules (the package snowballstemmer, pure Python) are imported with its first word. A stemmer keeps what it
works on in itself, so each word gets a new one: threads may search at once.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from typing import Any

from sapwood.memory.words import unaccented
from sapwood.retrieval.terms import STOP_WORDS

LANGUAGES = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "es": "spanish",
    "fa": "persian", "fi": "finnish", "fr": "french", "hi": "hindi", "hu": "hungarian", "hy": "armenian",
    "id": "indonesian", "it": "italian", "lt": "lithuanian", "nl": "dutch", "no": "norwegian", "pl": "polish",
    "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish", "ta": "tamil",
    "tr": "turkish",
}  # fmt: skip
"""The languages whose words are stemmed beside English, by what stands for them in a term."""

STOPS: Mapping[str, str] = {
    "ca": (
        "el els la les un una uns unes i o però que de del dels en amb per a al és són era ha no es seu seva molt "
        "més com on quan aquest aquesta jo tu ell ella nosaltres meu meva té tinc vaig"
    ),
    "cs": (
        "a i ale nebo že v ve na do z ze s se k ke o po pro při je jsou byl byla bylo být má mám není jako kde kdy "
        "co kdo ten ta to jsem jsi já ty on ona my jeho její můj moje které který"
    ),
    "da": (
        "og i at det er en et den til på som med for de der af ikke han hun har jeg du vi sig var fra hvad hvor "
        "hvem hvornår min mit mine din kan skal vil om men så også blev være"
    ),
    "de": (
        "der die das den dem des ein eine einen einem einer und oder aber nicht ist sind war waren hat haben hatte "
        "ich du er sie es wir ihr mein meine meinen dein seine ihre mit von zu zum zur im in am an auf für bei "
        "nach aus über wie was wer wo wann welche welcher welches warum auch noch nur sich dass wenn wird werden "
        "gern sehr kein keine mag"
    ),
    "es": (
        "el la los las un una unos unas y o pero que de del en con por para a al es son era fue está están ha no "
        "se su sus lo le les muy más como cómo dónde cuándo qué quién este esta yo tú él ella mi mis tiene tengo "
        "hay cuál me te"
    ),
    "fi": (
        "ja on ei se hän että en mutta tai oli ovat olen minä sinä me he tämä joka mikä missä milloin kuka mitä "
        "kun niin myös vain minun sinun hänen ole olla kanssa"
    ),
    "fr": (
        "le la les un une des du de et ou mais que qui dans en avec pour par sur à au aux est sont était a ont ne "
        "pas plus se son sa ses ce cette ces il elle je tu nous vous ils elles mon ma mes notre où quand comment "
        "quel quelle quels quelles quoi très aussi lui leur leurs"
    ),
    "hu": (
        "a az egy és vagy de hogy nem is van volt vannak én te ő mi ti ők ez azt ezt mit hol mikor ki miért nagyon "
        "csak már még meg el be fel le ki ha mint szereti"
    ),
    "id": (
        "yang dan di ke dari untuk dengan ini itu adalah tidak ada saya kamu dia kami mereka akan sudah pada dalam "
        "apa siapa kapan mana bagaimana juga atau tetapi karena lebih sangat"
    ),
    "it": (
        "il lo la i gli le un uno una e o ma che di del della dei delle in con per a al alla da dal è sono era ha "
        "hanno non si suo sua suoi molto più come dove quando chi cosa quale quali questo questa io tu lui lei noi "
        "mio mia nel nella sul sulla"
    ),
    "lt": (
        "ir yra kad ne su iš į apie bet ar kaip kur kada kas tai jis ji aš tu mes jie mano savo buvo labai tik dar "
        "jau per nuo prie"
    ),
    "nl": (
        "de het een en of maar niet is zijn was waren heeft hebben had ik jij je hij zij ze wij we mijn met van te "
        "naar in op aan voor bij uit over hoe wat wie waar wanneer welke waarom ook nog er dat die als wordt "
        "worden zeer geen dit deze hem haar"
    ),
    "no": (
        "og i at det er en et den til på som med for de av ikke han hun har jeg du vi seg var fra hva hvor hvem "
        "når min mitt mine din kan skal vil om men så også ble være hvilken hvilke"
    ),
    "pl": (
        "i w na z ze do o od po za dla przez nie jest są był była było być ma mam się że jak gdzie kiedy co kto "
        "ten ta to te jego jej mój moja moje ja ty on ona my ale lub czy który która które bardzo"
    ),
    "pt": (
        "o a os as um uma uns umas e ou mas que de do da dos das em no na nos nas com por para ao à é são era foi "
        "está não se seu sua seus suas muito mais como onde quando quem qual quais este esta isso eu ele ela meu "
        "minha tem tenho"
    ),
    "ro": (
        "și sau dar că de la în cu pe pentru din este sunt era a fost nu se său sa lui ei o un una mai foarte cum "
        "unde când ce cine care acest această eu tu el ea noi meu mea am are"
    ),
    "sv": (
        "och i att det är en ett den till på som med för de av inte han hon har jag du vi sig var från vad vem när "
        "min mitt mina din kan ska vill om men så också blev vara vilken vilka där"
    ),
    "tr": (
        "ve bir bu şu o da de için ile ama çok daha ne nerede nasıl kim hangi mi mı ben sen biz siz onlar var yok "
        "değil gibi olarak olan benim senin onun her"
    ),
}  # fmt: skip
"""Words that say nothing of what a text is about, and much of its language."""
CYRILLIC_STOPS = (
    "и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по ее мне было вот от меня о из ему "
    "когда где кто чем мы их был была были есть это этот эта для до или мой моя мои нет ли под при без очень только"
)
_LETTERS: Mapping[str, str] = {
    "ä": "de sv fi", "ö": "de sv fi hu tr", "ü": "de tr hu", "ß": "de", "å": "sv da no", "ø": "da no", "æ": "da no",
    "ñ": "es", "¿": "es", "ã": "pt", "õ": "pt", "ç": "fr pt tr", "è": "fr it ca", "ê": "fr pt", "à": "fr it ca",
    "û": "fr", "î": "fr ro", "ô": "fr pt", "œ": "fr", "ù": "it fr", "ò": "it ca", "ì": "it", "ő": "hu", "ű": "hu",
    "ğ": "tr", "ş": "tr", "ı": "tr", "ł": "pl", "ą": "pl lt", "ę": "pl lt", "ś": "pl", "ż": "pl", "ź": "pl",
    "ć": "pl", "ń": "pl", "ř": "cs", "ě": "cs", "ů": "cs", "ý": "cs", "š": "cs lt", "č": "cs lt", "ž": "cs lt",
    "ė": "lt", "ų": "lt", "ū": "lt", "į": "lt", "ă": "ro", "ț": "ro", "ș": "ro", "é": "fr es pt", "í": "es pt cs hu",
    "ó": "es pt pl", "á": "es pt hu cs", "ú": "es pt hu cs", "â": "fr ro pt", "ï": "fr",
}  # fmt: skip
_SCRIPTS = (
    (0x0370, 0x03FF, "el"), (0x0400, 0x052F, "ru"), (0x0530, 0x058F, "hy"), (0x0600, 0x06FF, "ar"),
    (0x0900, 0x097F, "hi"), (0x0B80, 0x0BFF, "ta"), (0x1F00, 0x1FFF, "el"),
)  # fmt: skip
_PERSIAN = frozenset("پچژگ")
_SERBIAN = frozenset("ђјљњћџ")
_MOST_LANGUAGES = 2
_NEAR = 0.7


@lru_cache(maxsize=1)
def _languages_of_words() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = dict.fromkeys(STOP_WORDS, ("en",))
    for language, listed in STOPS.items():
        for word in set(listed.split()):
            found[word] = (*found.get(word, ()), language)
    return found


@lru_cache(maxsize=64)
def stop_words(languages: tuple[str, ...]) -> frozenset[str]:
    """Return the stop words of these languages, and of English where there are none.

    >>> "der" in stop_words(("de",)), "der" in stop_words(())
    (True, False)
    """
    if not languages:
        return STOP_WORDS | frozenset(CYRILLIC_STOPS.split())
    return frozenset(" ".join((CYRILLIC_STOPS, *(STOPS.get(name, "") for name in languages))).split())


def languages_of(words: Iterable[str], *, letters: bool = True) -> tuple[str, ...] | None:
    """Return the languages that lower-case words with their accents may be in, likeliest first.

    Empty for English; None where nothing tells. Other scripts than the Latin one are told word by word: `stems`.
    letters: letters with marks tell too, which is not enough for a question of a word or two.

    >>> [languages_of(text.split()) for text in ("das haus ist groß", "the house is big", "metric units")]
    [('de',), (), None]
    """
    counts: dict[str, float] = {}
    known = _languages_of_words()
    for word in dict.fromkeys(words):
        for language in known.get(word, ()):
            counts[language] = counts.get(language, 0.0) + 1
        if letters and not word.isascii():
            for letter in dict.fromkeys(word):
                for language in _LETTERS.get(letter, "").split():
                    counts[language] = counts.get(language, 0.0) + 0.6
    if not counts:
        return None
    english = counts.pop("en", 0.0)
    most = max(counts.values(), default=0.0)
    if english >= most:
        return ()
    likely = sorted((name for name in counts if counts[name] >= _NEAR * most), key=lambda name: (-counts[name], name))
    return tuple(likely[:_MOST_LANGUAGES])


def stems(word: str, languages: Iterable[str]) -> list[str]:
    """Return the stems of a word in each language, each marked with it; of another script, in the script's language.

    >>> stems("häuser", ("de",)), stems("книги", ())
    (['de~haus'], ['ru~книг'])
    """
    if word.isascii() or not (language := _language_of_script(word)):
        return [] if word.isdigit() else [f"{name}~{_stem(word, name)}" for name in languages]
    return [f"{language}~{_stem(word, language)}"]


def rules() -> str:
    """Return what stands for the rules by which stems are made; with another one, an index is made anew."""
    return f"snowball/{version('snowballstemmer')}"


def _language_of_script(word: str) -> str:
    code = ord(word[0])
    for first, last, language in _SCRIPTS:
        if first <= code <= last:
            if language == "ar" and not _PERSIAN.isdisjoint(word):
                return "fa"
            return "sr" if language == "ru" and not _SERBIAN.isdisjoint(word) else language
    return ""


@lru_cache(maxsize=65_536)
def _stem(word: str, language: str) -> str:
    stemmer = _made(LANGUAGES[language])()
    return unaccented(stemmer.stemWord(word))


@lru_cache(maxsize=64)
def _made(name: str) -> Any:
    # The module and not `stemmer(name)`: that one takes another package's stems where it is installed.
    module = import_module(f"snowballstemmer.{name}_stemmer")
    return getattr(module, f"{name.capitalize()}Stemmer")
