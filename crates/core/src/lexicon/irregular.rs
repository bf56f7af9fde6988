//! Irregular English forms that a stemmer does not unify.

/// The base form of an irregular English word; a regular word stays unchanged.
pub(super) fn base(word: &str) -> &str {
    match FORMS.binary_search_by_key(&word, |(form, _)| form) {
        Ok(index) => FORMS[index].1,
        Err(_) => word,
    }
}

/// Irregular forms and their base forms, sorted.
#[rustfmt::skip]
const FORMS: [(&str, &str); 152] = [
    ("ate", "eat"), ("became", "become"), ("been", "be"), ("began", "begin"), ("begun", "begin"),
    ("bent", "bend"), ("best", "good"), ("better", "good"), ("bit", "bite"), ("bitten", "bite"),
    ("blew", "blow"), ("blown", "blow"), ("bought", "buy"), ("broke", "break"), ("broken", "break"),
    ("brought", "bring"), ("built", "build"), ("burnt", "burn"), ("came", "come"), ("caught", "catch"),
    ("children", "child"), ("chose", "choose"), ("chosen", "choose"), ("crept", "creep"),
    ("dealt", "deal"), ("drank", "drink"), ("drawn", "draw"), ("dreamt", "dream"), ("drew", "draw"),
    ("driven", "drive"), ("drove", "drive"), ("drunk", "drink"), ("dug", "dig"), ("eaten", "eat"),
    ("fallen", "fall"), ("fed", "feed"), ("feet", "foot"), ("fell", "fall"), ("felt", "feel"),
    ("flew", "fly"), ("flown", "fly"), ("forgave", "forgive"), ("forgiven", "forgive"),
    ("forgot", "forget"), ("forgotten", "forget"), ("fought", "fight"), ("found", "find"),
    ("froze", "freeze"), ("frozen", "freeze"), ("gave", "give"), ("given", "give"), ("gone", "go"),
    ("got", "get"), ("gotten", "get"), ("grew", "grow"), ("grown", "grow"), ("halves", "half"),
    ("heard", "hear"), ("held", "hold"), ("hid", "hide"), ("hidden", "hide"), ("hung", "hang"),
    ("kept", "keep"), ("knelt", "kneel"), ("knew", "know"), ("knives", "knife"), ("known", "know"),
    ("laid", "lay"), ("lain", "lie"), ("learnt", "learn"), ("leaves", "leaf"), ("led", "lead"),
    ("left", "leave"), ("lent", "lend"), ("lit", "light"), ("lives", "life"), ("lost", "lose"),
    ("made", "make"), ("meant", "mean"), ("men", "man"), ("met", "meet"), ("mice", "mouse"),
    ("paid", "pay"), ("people", "person"), ("ran", "run"), ("rang", "ring"), ("ridden", "ride"),
    ("risen", "rise"), ("rode", "ride"), ("rose", "rise"), ("rung", "ring"), ("said", "say"),
    ("sang", "sing"), ("sank", "sink"), ("sat", "sit"), ("saw", "see"), ("seen", "see"), ("sent", "send"),
    ("shaken", "shake"), ("shone", "shine"), ("shook", "shake"), ("shot", "shoot"), ("shown", "show"),
    ("shrank", "shrink"), ("slept", "sleep"), ("slid", "slide"), ("sold", "sell"), ("sought", "seek"),
    ("spent", "spend"), ("spoke", "speak"), ("spoken", "speak"), ("spun", "spin"), ("stole", "steal"),
    ("stolen", "steal"), ("stood", "stand"), ("struck", "strike"), ("stuck", "stick"), ("sung", "sing"),
    ("sunk", "sink"), ("swam", "swim"), ("swept", "sweep"), ("swore", "swear"), ("sworn", "swear"),
    ("swum", "swim"), ("swung", "swing"), ("taken", "take"), ("taught", "teach"), ("teeth", "tooth"),
    ("thought", "think"), ("threw", "throw"), ("thrown", "throw"), ("told", "tell"), ("took", "take"),
    ("tore", "tear"), ("torn", "tear"), ("understood", "understand"), ("was", "be"), ("went", "go"),
    ("were", "be"), ("wives", "wife"), ("woke", "wake"), ("woken", "wake"), ("women", "woman"),
    ("won", "win"), ("wore", "wear"), ("worn", "wear"), ("worse", "bad"), ("worst", "bad"),
    ("wove", "weave"), ("woven", "weave"), ("written", "write"), ("wrote", "write"),
];
