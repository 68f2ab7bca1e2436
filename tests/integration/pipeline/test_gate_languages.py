"""The gate over a corpus in another language: what is at rank 1 is retrieved, what is not there is searched for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sluice.contracts.api import GateRequest
from sluice.contracts.gate import GateDecided
from sluice.contracts.plan import Plan
from tests.support.in_process import Instance
from tests.support.valkey import Valkey

GERMAN = (
    "Die Brücke über den Fluss wurde im Jahr 1894 eröffnet. Sie verbindet die Altstadt mit dem neuen Bahnhof und trägt "
    "heute noch zwei Gleise der Straßenbahn. Der Architekt Karl Brandt hatte sie aus Stahl entworfen.",
    "Bienen legen ihren Honig in Waben aus Wachs an. Eine Arbeiterin lebt im Sommer etwa sechs Wochen, die Königin "
    "dagegen mehrere Jahre. Im Winter sitzt das Volk in einer Traube und hält sich gegenseitig warm.",
    "Der Grundwasserspiegel sinkt in trockenen Sommern um bis zu zwei Meter. Die Stadtwerke pumpen das Trinkwasser "
    "aus vierzig Brunnen und prüfen es täglich auf Nitrat und auf Keime.",
    "Für die Steuererklärung müssen Belege über Spenden zehn Jahre lang aufbewahrt werden. Das Finanzamt verlangt sie "
    "nur noch auf Nachfrage, aber wer sie verliert, verliert auch den Abzug.",
    "Ein Hefeteig geht am besten bei dreißig Grad. Wer ihn über Nacht im Kühlschrank ruhen lässt, braucht weniger Hefe "
    "und bekommt ein kräftigeres Brot mit grober Krume.",
)
FRENCH = (
    "Le pont sur la rivière a été inauguré en 1894. Il relie la vieille ville à la nouvelle gare et porte encore deux "
    "voies de tramway. L'architecte Charles Brandt l'avait dessiné en acier.",
    "Les abeilles déposent leur miel dans des rayons de cire. Une ouvrière vit environ six semaines en été, tandis que "
    "la reine vit plusieurs années. En hiver, la colonie forme une grappe pour se tenir chaud.",
    "Le niveau de la nappe phréatique baisse de deux mètres pendant les étés secs. La régie municipale pompe l'eau "
    "potable dans quarante puits et la contrôle chaque jour.",
    "Les justificatifs des dons doivent être conservés pendant dix ans pour la déclaration de revenus. "
    "L'administration fiscale ne les demande plus que sur contrôle.",
)
SPANISH = (
    "El puente sobre el río se inauguró en 1894. Une el casco antiguo con la nueva estación y todavía lleva dos vías "
    "de tranvía. El arquitecto Carlos Brandt lo había diseñado en acero.",
    "Las abejas guardan la miel en panales de cera. Una obrera vive unas seis semanas en verano, mientras que la reina "
    "vive varios años. En invierno la colonia forma un racimo para mantener el calor.",
    "El nivel del agua subterránea baja dos metros en los veranos secos. La empresa municipal bombea el agua potable "
    "de cuarenta pozos y la analiza todos los días.",
    "Los justificantes de las donaciones deben guardarse durante diez años para la declaración de la renta. La agencia "
    "tributaria solo los pide en caso de inspección.",
)

RUSSIAN = (
    "Мост через реку был открыт в 1894 году. Он соединяет старый город с новым вокзалом, и по нему до сих пор ходит "
    "трамвай.",
    "Пчёлы складывают мёд в соты из воска. Рабочая пчела живёт летом около шести недель, а матка несколько лет.",
    "Уровень грунтовых вод падает засушливым летом на два метра. Городская служба качает питьевую воду из сорока "
    "скважин.",
    "Документы о пожертвованиях нужно хранить десять лет для налоговой декларации.",
)
JAPANESE = (
    "川に架かる橋は1894年に開通した。旧市街と新しい駅を結び、今も路面電車が走っている。",
    "蜜蜂は蜜蝋の巣に蜂蜜を蓄える。働き蜂は夏には約六週間生き、女王蜂は数年生きる。",
    "乾いた夏には地下水位が二メートル下がる。市の水道局は四十本の井戸から飲料水を汲み上げている。",
)
ENGLISH = (
    "The bridge over the river was opened in 1894. It joins the old town with the new station and still carries trams.",
    "Receipts of donations must be kept for ten years for the tax return.",
)


@pytest.fixture
def instance(valkey: Valkey) -> Iterator[Instance]:
    instance = Instance(valkey, {})
    yield instance
    instance.close()


def scored_plan(instance: Instance, question: str) -> Plan:
    run_id = instance.service.ask(GateRequest(query=question)).run_id
    instance.works("query", "gate")
    [decided] = instance.context.ledger.events_of_kind(run_id, GateDecided.kind)
    return decided.body_as(GateDecided).scored_plan


@pytest.mark.parametrize(
    ("texts", "answered", "absent"),
    [
        pytest.param(
            GERMAN,
            (
                "Wann wurde die Brücke über den Fluss eröffnet?",
                "Wie lange lebt eine Arbeiterin der Bienen im Sommer?",
                "Wie lange müssen Belege über Spenden aufbewahrt werden?",
                "Bei wie viel Grad geht ein Hefeteig am besten?",
            ),
            (
                "Wer hat die Relativitätstheorie entwickelt?",
                "Welche Vulkane gibt es auf Island?",
                "Wie viele Spieler hat eine Handballmannschaft?",
            ),
            id="German",
        ),
        pytest.param(
            FRENCH,
            (
                "Quand le pont sur la rivière a-t-il été inauguré ?",
                "Combien de temps vit une ouvrière en été ?",
                "Combien d'années faut-il conserver les justificatifs des dons ?",
            ),
            ("Qui a inventé la théorie de la relativité ?", "Quels volcans se trouvent en Islande ?"),
            id="French",
        ),
        pytest.param(
            SPANISH,
            (
                "¿Cuándo se inauguró el puente sobre el río?",
                "¿Cuánto vive una obrera en verano?",
                "¿Durante cuántos años deben guardarse los justificantes de las donaciones?",
            ),
            ("¿Quién desarrolló la teoría de la relatividad?", "¿Qué volcanes hay en Islandia?"),
            id="Spanish",
        ),
        pytest.param(
            RUSSIAN,
            ("Когда был открыт мост через реку?", "Сколько живёт рабочая пчела летом?"),
            ("Кто разработал теорию относительности?", "Какие вулканы есть в Исландии?"),
            id="Russian",
        ),
        pytest.param(
            JAPANESE,
            ("川に架かる橋はいつ開通したか?", "働き蜂は夏にどのくらい生きるか?"),
            ("相対性理論を発展させたのは誰か?", "アイスランドの火山は?"),
            id="Japanese",
        ),
        pytest.param(
            (*ENGLISH, *GERMAN),
            ("Wann wurde die Brücke über den Fluss eröffnet?", "How long must receipts of donations be kept?"),
            ("Wer hat die Relativitätstheorie entwickelt?", "Who developed the theory of relativity?"),
            id="English and German",
        ),
    ],
)
def test_a_question_in_the_language_of_the_corpus_is_judged_by_its_own_words(
    instance: Instance, texts: tuple[str, ...], answered: tuple[str, ...], absent: tuple[str, ...]
) -> None:
    instance.adds(*texts)
    instance.works("chunk", "embed", "index")
    assert {question: scored_plan(instance, question) for question in answered} == dict.fromkeys(
        answered, Plan.RETRIEVE
    )
    outside = {question: scored_plan(instance, question) for question in absent}
    assert all(plan in (Plan.SEARCH, Plan.FULL_LOOP) for plan in outside.values()), outside
