<?php
// Searches SQLite's full-text index the way Wikipedia's search answers: title and text together, best page first,
// redirects folded into the page they lead to, stop words dropped, "phrases", -word, OR, prefix* and intitle:word.
use MediaWiki\MediaWikiServices;
use Wikimedia\Rdbms\FakeResultWrapper;

class RankedSearch extends SearchSqlite {
	private const STOP_WORDS = [
		'a', 'an', 'and', 'are', 'as', 'at', 'be', 'but', 'by', 'did', 'do', 'does', 'for', 'from', 'how', 'if', 'in',
		'into', 'is', 'it', 'no', 'not', 'of', 'on', 'or', 'such', 'that', 'the', 'their', 'then', 'there', 'these',
		'they', 'this', 'to', 'was', 'were', 'what', 'when', 'where', 'which', 'who', 'whom', 'why', 'will', 'with',
	];
	private const TITLE_COLUMN = 0;

	/** Null makes srwhat=title an error, as it is on Wikipedia. */
	protected function doSearchTitleInDB( $term ) {
		return null;
	}

	protected function doSearchTextInDB( $term ) {
		[ $expression, $words ] = self::parse( $term );
		$best = [];
		foreach ( $words ? $this->rows( $expression ) : [] as $row ) {
			if ( $row->page_is_redirect && ( !$row->target_id || $row->target_is_redirect ) ) {
				continue; // a redirect that leads nowhere, or to another redirect
			}
			$id = $row->page_is_redirect ? $row->target_id : $row->page_id;
			$score = self::score( $row, $words );
			if ( $score > ( $best[$id]->score ?? -1 ) ) {
				$best[$id] = (object)[
					'score' => $score,
					'page_id' => $id,
					'page_namespace' => $row->page_is_redirect ? $row->target_namespace : $row->page_namespace,
					'page_title' => $row->page_is_redirect ? $row->target_title : $row->page_title,
				];
			}
		}
		usort( $best, static fn ( $a, $b ) => $b->score <=> $a->score ?: $a->page_id <=> $b->page_id );
		$page = array_slice( $best, $this->offset, $this->limit );
		return new SqlSearchResultSet( new FakeResultWrapper( $page ), $words, count( $best ) );
	}

	/** The FTS3 expression of a query, and its words. */
	private static function parse( string $term ): array {
		$match = $not = $words = [];
		preg_match_all( '/(-?)(intitle:)?("[^"]+"|[^\s"]+)/u', $term, $pieces, PREG_SET_ORDER );
		foreach ( $pieces as [ , $negation, $field, $piece ] ) {
			if ( $piece === 'OR' && $match && end( $match ) !== 'OR' ) {
				$match[] = 'OR';
				continue;
			}
			$plain = self::plain( $piece );
			$isStopWord = $piece[0] !== '"' && !$negation && in_array( $plain, self::STOP_WORDS );
			if ( $plain === '' || $isStopWord ) {
				continue;
			}
			$star = substr( $piece, -1 ) === '*' ? '*' : '';
			// the index splits words at every sign, so a word such as "Schrödinger's" is a phrase of two
			$expression = str_contains( $plain, ' ' ) ? "\"$plain\"" : $plain . $star;
			if ( $negation ) {
				$not[] = "NOT $expression";
				continue;
			}
			$match[] = ( $field ? 'si_title:' : '' ) . $expression;
			array_push( $words, ...explode( ' ', $plain ) );
		}
		if ( end( $match ) === 'OR' ) {
			array_pop( $match );
		}
		return [ implode( ' ', [ ...$match, ...$not ] ), $words ];
	}

	private static function plain( string $text ): string {
		$lower = MediaWikiServices::getInstance()->getContentLanguage()->lc( $text );
		return trim( preg_replace( '/[^\p{L}\p{N}]+/u', ' ', $lower ) );
	}

	private function rows( string $expression ): iterable {
		$db = $this->lb->getConnectionRef( DB_REPLICA );
		$namespaces = $db->makeList( $this->namespaces ?: [ NS_MAIN ] );
		return $db->query(
			'SELECT page.page_id, page.page_namespace, page.page_title, page.page_is_redirect, page.page_len, si_title,'
			. ' target.page_id target_id, target.page_namespace target_namespace, target.page_title target_title,'
			. ' target.page_is_redirect target_is_redirect, matchinfo(searchindex) matches'
			// CROSS: else SQLite may scan the pages, and search the index anew for each of them
			. ' FROM searchindex CROSS JOIN page ON page.page_id = searchindex.rowid'
			. ' LEFT JOIN redirect ON rd_from = page.page_id'
			. ' LEFT JOIN page target ON target.page_namespace = rd_namespace AND target.page_title = rd_title'
			. ' WHERE searchindex MATCH ' . $db->addQuotes( $expression )
			. " AND page.page_namespace IN ($namespaces)",
			__METHOD__
		);
	}

	/** BM25 over title and text, and a lift for titles that share words with the query. */
	private static function score( object $row, array $words ): float {
		// FTS3's "pcx": phrases, columns, then for each pair of them hits here, hits in all, rows with a hit
		[ $phrases, $columns, ] = $matches = array_values( unpack( 'V*', $row->matches ) );
		$score = 0.0;
		for ( $i = 0; $i < $phrases * $columns; $i++ ) {
			[ $hits, , $rowsWithHit ] = array_slice( $matches, 2 + 3 * $i, 3 );
			$isTitle = $i % $columns === self::TITLE_COLUMN;
			$rarity = log( 1 + 1000 / max( 1, $rowsWithHit ) );
			$length = $isTitle ? 1 : 0.25 + 0.75 * $row->page_len / 1500;
			$score += ( $isTitle ? 4 : 1 ) * $rarity * $hits * 2.2 / ( $hits + 1.2 * $length );
		}
		$title = self::plain( $row->si_title );
		if ( $title === implode( ' ', $words ) ) {
			return $score + 100;
		}
		$titleWords = explode( ' ', $title );
		$common = count( array_intersect( array_unique( $titleWords ), $words ) );
		return $score + 20 * $common / count( array_unique( $words ) ) + 5 * $common / count( $titleWords );
	}
}
