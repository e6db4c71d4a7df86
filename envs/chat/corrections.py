"""How users say that a reply is not as they like it: twelve ways and more per wish.

A block per wish, ``wish:language`` where a persona speaks another, and a line per sentence, marked
``!`` blunt, ``~`` polite or ``?`` indirect. ``{n}`` is the wish's parameter.
"""

TEXT = """
[on_topic]
! That's not what I asked.
! You didn't answer my question at all.
! What? That has nothing to do with it. Again please.
! No. Read my message once more and answer that.
~ I think something got mixed up, could you answer the question I sent?
~ Sorry, I can't find an answer to my question in there. Could you try once more?
~ Would you mind going back to what I asked?
~ Perhaps my question got lost, could you have another look at it?
? Hmm, I was hoping to hear something about my question.
? I read that twice and I'm still where I was before.
? Did my message come through in full on your side?
? That seems to be meant for somebody else.

[on_topic:de]
! Das war nicht meine Frage.
! Du hast gar nicht geantwortet.
! Nein, lies noch mal, was ich gefragt habe.
! Was hat das damit zu tun?
~ Könntest du bitte auf meine Frage eingehen?
~ Da ist wohl etwas durcheinandergekommen, versuchst du es noch einmal?
~ Ich finde darin leider keine Antwort, schaust du bitte noch mal?
~ Magst du zu dem zurückkommen, was ich wissen wollte?
? Ich hatte gehofft, etwas zu meiner Frage zu lesen.
? Ist meine Nachricht vollständig angekommen?
? Jetzt bin ich so klug wie vorher.
? Das war vielleicht für jemand anderen gedacht.

[on_topic:fr]
! Ce n'était pas ma question.
! Tu n'as pas répondu du tout.
! Non, relis ce que j'ai demandé.
! Quel est le rapport ?
~ Pourrais-tu répondre à ma question, s'il te plaît ?
~ Il y a dû avoir une confusion, tu veux bien essayer encore ?
~ Je n'y trouve pas la réponse, peux-tu regarder de nouveau ?
~ Veux-tu bien revenir à ce que je demandais ?
? J'espérais lire quelque chose sur ma question.
? Mon message est-il bien arrivé en entier ?
? Me voilà au même point qu'avant.
? Cela s'adressait peut-être à quelqu'un d'autre.

[on_topic:es]
! Eso no es lo que he preguntado.
! No has contestado nada.
! No, vuelve a leer lo que te he preguntado.
! ¿Y eso qué tiene que ver?
~ ¿Podrías responder a mi pregunta, por favor?
~ Creo que ha habido una confusión, ¿lo intentas otra vez?
~ No encuentro ahí la respuesta, ¿puedes mirarlo de nuevo?
~ ¿Te importaría volver a lo que preguntaba?
? Esperaba leer algo sobre mi pregunta.
? ¿Te ha llegado entero mi mensaje?
? Pues me quedo como estaba.
? Quizá eso era para otra persona.

[no_exclamation:de]
! Keine Ausrufezeichen.
! Schrei mich nicht so an, ein Punkt reicht.
! Weg mit den Ausrufezeichen.
! Punkte bitte, kein einziges Ausrufezeichen.
~ Könntest du die Sätze bitte mit einem Punkt beenden?
~ Lass bitte die Ausrufezeichen weg, es liest sich dann ruhiger.
~ Wärst du so nett, das ohne Ausrufezeichen zu schreiben?
~ Mir wäre es ohne diese Zeichen am Satzende lieber.
? Das klingt ja wie auf dem Jahrmarkt.
? Man meint, da ruft einer quer über den Zaun.
? So aufgeregt muss es am frühen Morgen nicht sein.
? Meine Tageszeitung kommt auch mit Punkten aus.

[no_bullets:es]
! Sin viñetas.
! Quita esos guiones y escribe frases.
! No quiero una lista.
! Deja de partirlo en puntos.
~ ¿Podrías escribirlo como texto seguido, por favor?
~ Preferiría un párrafo, sin puntos delante.
~ ¿Te importaría unirlo todo en frases completas?
~ Me ayudaría que quitaras los guiones del principio de cada línea.
? Parece la lista de la compra.
? Me gustaría leerlo como si me lo contara alguien.
? Con tanto guion no veo qué va con qué.
? En el móvil, esos puntitos me salen unos debajo de otros y me pierdo.

[no_bold]
! Stop putting words in bold.
! No bold. I said what I need, now write it without the thick letters.
! Why is half of this in bold? Take it out.
! Lose the asterisks, I don't want anything emphasised.
~ Could you send that again without the bold parts, please?
~ Would you mind leaving out the bold type? Normal letters are fine.
~ Please keep everything in the same weight, nothing bold.
~ One small thing: I'd prefer it if no words were highlighted in bold.
? When I copy this over, those double stars stick out a mile.
? Nobody I know types with thick letters in the middle of a sentence.
? The highlighting makes it look like a machine wrote it.
? My eyes keep jumping to the fat words and I lose the thread.
? I had to go through the whole thing and un-bold it by hand.

[no_numbered_list]
! No numbered list.
! Don't give me 1, 2, 3. Just write it out.
! Drop the numbered steps.
! I can't use a list with numbers, write sentences.
~ Could you write that as normal text rather than numbered points?
~ Please put it into a paragraph, without numbering the steps.
~ Would it be possible to have this flow as sentences and not as steps one, two, three?
~ I'd be glad if you could do it again without the numbers in front of the lines.
? It reads like the manual of a washing machine, step after step.
? I'd never number my own thoughts like that.
? Looks as if somebody had copied it from an instruction sheet.
? People usually just tell it one thing after the other, don't they?
? I ended up deleting all those 1. and 2. at the start of the lines.

[no_boxed_answer]
! Don't box the answer.
! Take that box thing off.
! No \\boxed, I don't even know what that is.
! Just say the result. No frame around it.
~ Could you give the result without the box around it, please?
~ Please leave the final answer in the sentence, not in a box.
~ Would you mind writing the result as plain words, without the frame?
~ If you could skip the boxed result at the end that would be great.
? There is some weird backslash thing around the number at the end.
? My notebook doesn't have little frames around the results.
? We never draw a box round the answer in our class.
? That framed number at the bottom gives it away.

[no_bullets]
! No bullet points.
! Get rid of the bullets and write sentences.
! I don't want a list of dashes.
! Stop chopping it into bullets.
~ Could I have that as running text, without the bullets?
~ Please join the points into a paragraph.
~ Would you write it out in full sentences and not as a list, please?
~ It'd help me if you dropped the dots in front of each line.
? It feels like looking at somebody's slides.
? All those little dashes make it hard to see how one thing leads to the next.
? I was hoping for something that reads like a letter.
? I'd have to glue these scraps together before I can send them on.

[bullets]
! Bullets, please. Not a wall of text.
! Make it a list.
! I won't read a paragraph. Points.
! Break it up: one dash per point.
~ Could you turn that into bullet points for me?
~ Please give me the same thing as a short list with bullets.
~ Would you mind putting each point on its own line with a dash?
~ A bulleted list would be easier for me, if that's all right.
? I lose my place in a block of text like this.
? It's hard to tick things off when they are all in one paragraph.
? My screen is small and that's a big lump of words.
? I was going to paste it under three dots on a slide.

[at_least_words]
! Too short. At least {n} words.
! That's it? I need {n} words or more.
! Longer. Much longer, {n} words at the very least.
! One line won't do, write {n} words.
~ Could you write a bit more, please? Something like {n} words would be right.
~ Would you expand on that? I need no fewer than {n} words.
~ Please go into more detail, {n} words is the least I can work with.
~ It's a good start, could you bring it up to {n} words or so?
? There's room for {n} words on the sheet and this fills one corner of it.
? I'd have trouble calling that an explanation at this length, below {n} words.
? My colleagues write {n} words about something like this and don't think it long.
? Somehow it was over before it started. The others all have {n} words.

[at_most_words]
! Too long. {n} words, no more.
! Shorter. {n} words.
! I'm not reading all that. Max {n} words.
! Cut it down to {n} words.
~ Could you keep it under {n} words, please?
~ Please make that shorter, {n} words would be plenty.
~ Would you mind saying it in {n} words or fewer?
~ That's more than I need, could you trim it to {n} words?
? I'm reading this at a bus stop, there's time for about {n} words.
? I stopped somewhere in the middle, after {n} words or so.
? It would have to fit on a sticky note, so {n} words.
? My attention ends at {n} words these days.

[gives_reasons]
! Why? Give a reason.
! You just claim it. Say why.
! No reason given. I can't use that.
! Don't tell me what, tell me because of what.
~ Could you explain why that is so?
~ Please add the reasons behind it.
~ Would you say why, with a because somewhere? It helps the children a lot.
~ It'd be nice to see what makes it true, not only that it is.
? I'd be asked "and why is that?" straight away.
? It's a bit like being told the end of a story without the story.
? I can see the result but not what leads there.
? Someone in the third row always wants to know how come.

[warm]
! That's cold. Be kinder.
! Too dry. These are children and parents, not clients.
! It sounds like a letter from the tax office. Warmer.
! Put some heart into it.
~ Could you say that a little more warmly, please?
~ Please add a kind word, it makes a difference to the people who read it.
~ Would you make it friendlier? Something encouraging would be lovely.
~ It's all correct, it could just be a bit gentler in tone.
? I imagine getting this on a bad day, and it wouldn't lift me.
? Nobody would feel encouraged by that, I fear.
? The facts are there, the smile is missing.
? I'd like them to feel that someone is on their side when they read it.

[language:de]
! Auf Deutsch bitte.
! Ich habe auf Deutsch gefragt, also antworte auch auf Deutsch.
! Nein, nicht in dieser Sprache. Deutsch.
! Schreib das noch mal auf Deutsch.
~ Könntest du das bitte auf Deutsch schreiben?
~ Wärst du so nett, mir auf Deutsch zu antworten?
~ Bitte noch einmal in deutscher Sprache, dann kann ich es besser lesen.
~ Es wäre schön, wenn die Antwort auf Deutsch wäre.
? Damit komme ich leider nicht weit, meine Fremdsprachen sind eingerostet.
? Meine Oma soll das auch lesen, und die kann nur Deutsch.
? Ich musste die Hälfte davon nachschlagen.
? Seltsam, ich hatte doch auf Deutsch geschrieben.

[language:fr]
! En français, s'il te plaît.
! J'ai posé la question en français, réponds en français.
! Non, pas dans cette langue. En français.
! Écris-moi ça en français.
~ Pourrais-tu me répondre en français, s'il te plaît ?
~ Serait-il possible d'avoir la réponse en français ?
~ Je préférerais lire cela en français, merci d'avance.
~ Ce serait plus simple pour moi en français, si cela ne te dérange pas.
? Je n'ai compris qu'un mot sur deux.
? Ma mère doit le lire aussi, et elle ne parle que le français.
? Il me semblait pourtant avoir écrit en français.
? J'ai dû sortir le dictionnaire pour lire ta réponse.

[language:es]
! En español, por favor.
! Te he preguntado en español, contesta en español.
! No, en ese idioma no. En español.
! Escríbelo otra vez en español.
~ ¿Podrías contestarme en español, por favor?
~ ¿Te importaría escribirlo en español?
~ Preferiría leerlo en español, si no es molestia.
~ Me ayudaría mucho tener la respuesta en español.
? Solo he entendido la mitad de lo que dices.
? Mi abuelo también lo va a leer, y él solo habla español.
? Qué raro, yo había escrito en español.
? He tenido que buscar casi todas las palabras.

[metric_units]
! Metric. I don't use those units.
! What's that in grams and millilitres? Write it that way.
! No cups, no ounces, no Fahrenheit.
! Give me units that are on my scales.
~ Could you give the amounts in metric units, please?
~ Please use grams, litres and degrees Celsius.
~ Would you convert everything to metric for me?
~ I'd be thankful for centimetres and kilos, that's what I know.
? My kitchen scales only know grams.
? My oven dial ends at 250, so that number can't be right here.
? I'm in Lyon, nobody here measures like that.
? I would have to look up every one of those amounts.

[ends_with_summary]
! Where's the summary? Last line, please.
! End with one line that sums it up.
! No closing line. I only read the last line, so put one there.
! Finish with "In short: ..." like always.
~ Could you close with a one-line summary, please?
~ Please add a last line that begins with "In short" and says the main point.
~ Would you put the gist into one line of its own at the end?
~ It'd help to have a final line summing everything up.
? I scrolled to the bottom to find the point of it, and it just stops.
? If somebody asked me what it says in one sentence, I'd have to think.
? I usually forward the last line to the others, and this one won't do.
? Good, and the bottom line is?

[no_emoji]
! No emoji.
! Take the little pictures out.
! I'm not twelve. No smileys.
! Drop the icons.
~ Could you write that without emoji, please?
~ Please leave out the little symbols, words are enough.
~ Would you mind skipping the smileys?
~ I'd prefer it without any pictograms, if you don't mind.
? On my device those show up as empty squares.
? My reader says "grinning face" out loud in the middle of a sentence.
? I can't put a rocket into a report for the board.
? It looks a bit like a birthday card.

[no_exclamation]
! Stop shouting. No exclamation marks.
! Full stops, please. Not one exclamation mark.
! Calm down and take those exclamation marks out.
! Too many of these: ! Zero is the right number.
~ Could you end the sentences with a plain full stop, please?
~ Please do it again without exclamation marks.
~ Would you mind toning down the punctuation? No exclamation marks for me.
~ I'd like it a little calmer, without the marks at the end.
? I feel as if somebody was cheering at me.
? It reads like an advertisement for toothpaste.
? There's a lot of excitement in there for a Tuesday morning.
? Our house style has had a full stop at the end of sentences since forever.

[plain_text]
! Plain text. No Markdown.
! My terminal shows all those stars and hashes. Get rid of them.
! No formatting at all.
! Raw text only, no markup characters.
~ Could you send that as plain text, please?
~ Please leave out the formatting, it isn't rendered where I read it.
~ Would you write it without any Markdown signs?
~ Simple unformatted text would be best for me, thanks.
? I see a lot of # and * around the words over here.
? This goes into a text message, where nothing is rendered.
? The backticks and stars come through as they are, it looks a mess.
? I'm reading this in a window that knows letters and nothing else.

[begins_with_answer]
! Answer first.
! Start with the result, then talk.
! I had to dig for the answer. Put it at the front.
! Skip the introduction.
~ Could you begin with the answer, please, and explain afterwards?
~ Please put the result into the first words.
~ Would you lead with the answer next time? I can read on if I need more.
~ It'd be nice to have the answer right at the start.
? I only see the first few words in the preview.
? By the time the answer came I'd nearly forgotten the question.
? There was quite a run-up before the jump.
? My watch shows me one line, and the answer wasn't in it.

[json_only]
! JSON only. My parser just crashed.
! Not valid JSON. One object, nothing around it.
! No prose, no fence, just the JSON.
! That can't be parsed.
~ Could you return a bare JSON object, please?
~ Please send only JSON, without any text before or after it.
~ Would you drop the explanation around it and answer in pure JSON?
~ I'd need that as one JSON object with nothing else in the message.
? json.loads raised an error on the first character.
? The next step in my pipeline expects a curly bracket at position zero.
? My script reads your message as it is, and it gave up.
? The log says: unexpected token at the start of input.
"""
